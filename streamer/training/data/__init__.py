"""Reads the given speech, prepares, aligns and degrades it, and makes speech with synthetic voices."""
