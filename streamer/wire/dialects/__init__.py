"""Formats of other services over a websocket: each is translated into the native protocol and back. Pure."""
