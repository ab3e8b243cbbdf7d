"""The language model and the lexicon: text, counts, pruning, pronunciations, and the neural model."""
