"""Trains and measures the detection of speech activity: examples of speech and other sounds, and figures."""
