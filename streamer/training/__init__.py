"""Makes and measures the model: the library of scripts/data, scripts/train and scripts/measure."""
