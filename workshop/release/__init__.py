"""Prepares new weights for a release: everything that depends on them is fitted, measured and written down."""
