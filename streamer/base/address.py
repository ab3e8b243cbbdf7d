"""Addresses: those of services, which become websocket URLs, and those of recordings and models, which are fetched.

It uses only the standard library and is quick to import: the command line uses it before anything else.
"""

from __future__ import annotations

import json
import socket
import time
from typing import Final
from urllib.parse import urlsplit

PATH: Final = "/v1/stream"  # of the native protocol
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8080
SERVER_VARIABLE: Final = "STREAMER_SERVER"  # an environment variable with the address of the service

_SCHEMES: Final = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_LONGEST_ANSWER: Final = 64 * 1024
# If no program listens at the address, that shows at once. But on a busy machine a service needs more than a moment for
# its answer, and a second service, started because the first one seemed absent, would make the machine busier.
_ANSWER_S: Final = 2.0


def websocket_url(address: str) -> str:
    """Return the native protocol's URL for `host`, `host:port`, or an http or ws URL. ValueError for anything else."""
    full = address if "://" in address else f"ws://{address}"
    try:
        parts = urlsplit(full)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"'{address}' is not an address of a service: {error}.") from None
    if parts.scheme not in _SCHEMES or not parts.hostname or len(address.split()) != 1:
        raise ValueError(f"'{address}' is not an address of a service; write host:port or ws://host:port.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if port is None and "://" not in address:
        port = DEFAULT_PORT
    where = host if port is None else f"{host}:{port}"
    path = PATH if parts.path in ("", "/") else parts.path
    query = f"?{parts.query}" if parts.query else ""
    return f"{_SCHEMES[parts.scheme]}://{where}{path}{query}"


def addresses_of(text: str) -> list[str]:
    """Return the addresses of one service in a list with commas: those of its bridges, of which any will do."""
    return [each.strip() for each in text.split(",")]


def is_ready(host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, timeout: float = _ANSWER_S) -> bool:
    """Return whether a Streamer service at this address is ready."""
    request = f"GET /readyz HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    deadline = time.monotonic() + timeout
    try:
        # A socket instead of http.client, whose import alone takes longer than the whole check.
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(request.encode())
            answer = b""
            while len(answer) < _LONGEST_ANSWER and (data := connection.recv(4096)):
                answer += data
                connection.settimeout(max(0.001, deadline - time.monotonic()))
        head, _, body = answer.partition(b"\r\n\r\n")
        content = json.loads(body)
    except (OSError, ValueError):
        return False
    if head.split(b" ", 2)[1:2] != [b"200"] or not isinstance(content, dict):
        return False
    return content.get("service") == "streamer" and content.get("ready") is True


# Reads web addresses: recordings and public models come from there. Standard library only.


def is_address(text: str) -> bool:
    """Return whether this is a web address, and not the name of a file."""
    return text.lower().startswith(("https://", "http://"))
