"""Searches that find words in emissions: the beam search with lexicon and language model, and the greedy search."""
