"""The language model and the lexicon: text as it is spoken, counts, Kneser-Ney, pruning, pronunciations."""
