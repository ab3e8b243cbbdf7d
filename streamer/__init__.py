"""Streamer: speech recognition that writes while you speak."""

__version__ = "0.2.0"
