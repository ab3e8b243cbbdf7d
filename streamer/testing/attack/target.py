"""The service under attack, as attackers know it: its address, a key, tokens of others, and its processes."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from streamer.testing.attack.frames import TEXT, frame
from streamer.testing.attack.raw_connection import CUT_OFF, RawConnection
from streamer.wire.native import PATH

DISTURBED_S = 20.0  # words may be late for so long; none may be lost


@dataclass
class Target:
    """A service under attack. `hostile_key` is a valid key that the attackers own."""

    host: str
    port: int
    hostile_key: str
    tls_port: int = 0
    # The tokens of other clients' sessions, which a real attacker should not know.
    tokens: deque[str] = field(default_factory=lambda: deque(maxlen=64))
    model_processes: Callable[[], list[int]] = list
    triton: Callable[[], int | None] = lambda: None
    bridge: Callable[[], int | None] = lambda: None
    disturbed: list[tuple[float, float]] = field(default_factory=list)  # the times in which a fault may delay words

    def disturb(self, seconds: float = DISTURBED_S) -> None:
        """Note that a fault was caused on purpose: the words of others may be late for this long."""
        now = time.monotonic()
        self.disturbed.append((now, now + seconds))

    def was_disturbed(self, since: float, until: float) -> bool:
        """Return whether a fault was noted between these times."""
        return any(began <= until and since <= over for began, over in self.disturbed)

    async def connect(self, *, tls: bool = False) -> RawConnection:
        """Open a connection without sending anything. With `tls` it goes to the port with TLS, without a handshake."""
        return await RawConnection.open(self.host, self.tls_port if tls else self.port)

    def request(self, path: str = PATH, key: str | None = None, *fields: str) -> bytes:
        """Return the bytes of a request for a websocket."""
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
            "Sec-WebSocket-Version: 13",
            *([f"Authorization: Bearer {self.hostile_key if key is None else key}"] if key != "" else []),
            *fields,
        ]
        return "\r\n".join([*lines, "", ""]).encode()

    async def websocket(self, key: str | None = None, path: str = PATH) -> RawConnection:
        """Open a websocket, by default one of the native protocol without starting a session."""
        connection = await self.connect()
        try:
            await connection.send(self.request(path, key))
            status, _ = await connection.head()
            if status != 101:
                raise ConnectionResetError(f"HTTP {status}")
        except BaseException:
            connection.abort()
            raise
        return connection

    async def session(self, **options: Any) -> tuple[RawConnection, dict[str, Any]]:
        """Open a websocket and start a session. Returns its first event: `ready`, or the reason for a refusal."""
        connection = await self.websocket()
        with suppress(*CUT_OFF):
            await connection.send(start(**options))
            event = await connection.event()
            if event is not None:
                return connection, event
        connection.abort()
        raise ConnectionResetError("no session")


def start(**options: Any) -> bytes:
    """Return the frame that starts a session."""
    return text({"type": "start", **options})


def text(message: Any) -> bytes:
    """Return a text frame with this message."""
    return frame(TEXT, (message if isinstance(message, str) else json.dumps(message)).encode())
