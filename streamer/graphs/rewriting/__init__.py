"""Rewrites graphs into graphs that give the same results in less time."""
