"""Measuring the end of turns."""
