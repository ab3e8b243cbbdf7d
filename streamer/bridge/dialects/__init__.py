"""Websockets in the formats of other services: each becomes a session like any other."""
