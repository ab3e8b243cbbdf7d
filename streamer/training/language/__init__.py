"""Builds the language model and the lexicon: spoken text, counts, Kneser-Ney, pruning, pronunciations."""
