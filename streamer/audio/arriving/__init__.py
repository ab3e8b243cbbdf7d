"""Decodes the recordings of strangers while they arrive, each in a process of its own with limits."""
