"""Turns the words of a search into results: times, confidence, written form."""
