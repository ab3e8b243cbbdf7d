"""Training and measurement of a keyword spotter on the frames of the encoder."""
