"""Training of the punctuation model."""
