"""Training and measuring of the punctuation model."""
