"""Recordings that strangers send: decoded while they arrive, in a process of their own with limits."""
