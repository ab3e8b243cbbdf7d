"""How the model is made and measured: the library behind scripts/data, scripts/train and scripts/measure."""
