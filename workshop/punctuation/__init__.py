"""Training and measurement of the punctuation model."""
