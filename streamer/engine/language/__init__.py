"""The language: words with their pronunciations, and the probabilities of their sequences."""
