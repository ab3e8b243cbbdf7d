"""Measuring the punctuation model: on text, on speech, and what it costs."""
