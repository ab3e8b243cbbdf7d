"""Reads, prepares, aligns and degrades speech, and makes speech with synthetic voices."""
