"""Training and measurement of the detection of speech activity."""
