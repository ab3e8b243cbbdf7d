"""Audio that is in no file: it comes through a pipe, or from an address."""
