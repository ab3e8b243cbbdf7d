"""Measures transcripts against references. Pure."""
