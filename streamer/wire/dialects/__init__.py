"""Formats of other services over a websocket. Each is translated into the native protocol and back. Pure."""
