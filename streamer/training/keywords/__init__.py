"""Training of a keyword spotter on the frames of the encoder, and the repository with it."""
