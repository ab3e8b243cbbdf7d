"""Comparisons with other software, and of ways to train."""
