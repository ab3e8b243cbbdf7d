"""Prepared speech, its alignments, and synthetic speech."""
