"""Where attackers find the service, and what they know: keys, tokens of others, and the processes behind it."""

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

DISTURBED_S = 20.0  # afterwards words may be late; none may be lost


@dataclass
class Target:
    """A service under attack. `hostile_key` is a proper key, whose holder means no good."""

    host: str
    port: int
    hostile_key: str
    tls_port: int = 0
    # What is known of others' sessions, and never should be.
    tokens: deque[str] = field(default_factory=lambda: deque(maxlen=64))
    model_processes: Callable[[], list[int]] = list
    triton: Callable[[], int | None] = lambda: None
    bridge: Callable[[], int | None] = lambda: None
    disturbed: list[tuple[float, float]] = field(default_factory=list)  # when words could be late for a good reason

    def disturb(self, seconds: float = DISTURBED_S) -> None:
        """Something is broken on purpose: for so long words of others may be late."""
        now = time.monotonic()
        self.disturbed.append((now, now + seconds))

    def was_disturbed(self, since: float, until: float) -> bool:
        """Whether anything was broken between these times."""
        return any(began <= until and since <= over for began, over in self.disturbed)

    async def connect(self, *, tls: bool = False) -> RawConnection:
        """A connection at which nothing was said; at the port with TLS it is not encrypted yet."""
        return await RawConnection.open(self.host, self.tls_port if tls else self.port)

    def request(self, path: str = PATH, key: str | None = None, *fields: str) -> bytes:
        """A request for a websocket."""
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

    async def websocket(self, key: str | None = None) -> RawConnection:
        """A websocket at which nothing was started."""
        connection = await self.connect()
        try:
            await connection.send(self.request(key=key))
            status, _ = await connection.head()
            if status != 101:
                raise ConnectionResetError(f"HTTP {status}")
        except BaseException:
            connection.abort()
            raise
        return connection

    async def session(self, **options: Any) -> tuple[RawConnection, dict[str, Any]]:
        """A websocket and what its session said first: `ready`, or why there is none."""
        connection = await self.websocket()
        with suppress(*CUT_OFF):
            await connection.send(start(**options))
            event = await connection.event()
            if event is not None:
                return connection, event
        connection.abort()
        raise ConnectionResetError("no session")


def start(**options: Any) -> bytes:
    """The frame that starts a session."""
    return text({"type": "start", **options})


def text(message: Any) -> bytes:
    """A text frame with this message."""
    return frame(TEXT, (message if isinstance(message, str) else json.dumps(message)).encode())
