"""Hotwords for public models: their tokens, and the bonus of each token in a search."""
