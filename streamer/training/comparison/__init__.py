"""Comparisons with what other people have written."""
