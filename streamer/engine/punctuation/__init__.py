"""Punctuation and capitals for the words that were heard."""
