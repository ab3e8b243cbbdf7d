"""Rewrites graphs into ones that give the same and are computed faster."""
