"""Comparisons with other software."""
