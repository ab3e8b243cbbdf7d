"""Clients that upload recordings: whole requests, and connections of which each byte is chosen."""

from __future__ import annotations

import http.client
import io
import json
import os
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import soundfile

from streamer.audio.decoder_process import MODULE
from streamer.base.machine import command, processes
from streamer.testing.exact_speech import Audio, silence

PATIENCE_S = 60.0
BOUNDARY = "----a-boundary"


def recording(audio: Audio, format: str = "WAV", subtype: str | None = None, rate: int = 16_000) -> bytes:
    """Return a recording in this format."""
    file = io.BytesIO()
    soundfile.write(file, audio / np.float32(32768) if subtype == "FLOAT" else audio, rate, subtype, format=format)
    return file.getvalue()


def sentences(*said: Audio) -> Audio:
    """Return sentences with pauses that end segments."""
    return np.concatenate([part for each in said for part in (each, silence(1500))])


def form(*fields: tuple[str, str | bytes]) -> tuple[bytes, str]:
    """Return a form with these fields in this order, and its content type. Bytes are a file."""
    body = b""
    for name, value in fields:
        file = '; filename="talk.wav"\r\nContent-Type: audio/wav' if isinstance(value, bytes) else ""
        body += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode()
        body += (value if isinstance(value, bytes) else value.encode()) + b"\r\n"
    return body + f"--{BOUNDARY}--\r\n".encode(), f"multipart/form-data; boundary={BOUNDARY}"


def post(
    url: str, path: str, body: Any = b"", method: str = "POST", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Send one request; an iterable body is sent in chunks. Return status, headers and content of the answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with suppress(ConnectionError):  # a refusal may come before all of the body is sent
            connection.request(method, path, body, named)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.headers.items()}, response.read()
    finally:
        connection.close()


def error(content: bytes) -> str:
    """Return the code of a refusal."""
    return str(json.loads(content)["error"]["code"])


def decoders(parent: int | None = None) -> int:
    """Return the number of decoder processes of this process."""
    return len(decoder_processes(parent))


def decoder_processes(parent: int | None = None) -> list[int]:
    """Return the decoder processes of this process, or of another one."""
    parent = parent or os.getpid()
    return [each.pid for each in processes() if each.parent == parent and MODULE in command(each.pid)]


class Wire:
    """A connection that sends any bytes."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port or 0), PATIENCE_S)
        self._received = b""

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def chunk(self, data: bytes) -> None:
        """Send a chunk of a body."""
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def until(self, mark: bytes) -> bytes:
        """Receive up to this mark."""
        while mark not in self._received:
            data = self._socket.recv(65536)
            assert data, f"the connection ended before {mark!r}: {self._received!r}"
            self._received += data
        found, _, self._received = self._received.partition(mark)
        return found + mark

    def rest(self) -> bytes:
        """Receive everything until the end."""
        while data := self._socket.recv(65536):
            self._received += data
        self.close()
        return self._received

    def close(self) -> None:
        """Close it."""
        self._socket.close()
