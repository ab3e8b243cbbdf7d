"""The library behind scripts/train and scripts/measure."""
