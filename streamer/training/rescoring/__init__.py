"""The neural language model that compares alternatives: its training, and the tuning of its weights."""
