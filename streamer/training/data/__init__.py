"""Reads, prepares, aligns and degrades the given speech, and makes speech with synthetic voices."""
