"""Tells the voices of a recording apart: which of them speaks when, and which of them is the same as one before."""
