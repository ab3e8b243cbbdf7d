"""Audio that is not in a file, but comes through a pipe or from an address."""
