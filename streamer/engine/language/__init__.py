"""The language: words with their pronunciations, and how likely they follow one another."""
