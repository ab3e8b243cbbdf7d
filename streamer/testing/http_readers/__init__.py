"""Compares readers of HTTP and websockets by the same measurements. `scripts/service/http_readers.py` runs it."""
