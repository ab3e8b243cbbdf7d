"""Tells the supervisor that started the service that it is ready, that it stops, and that its event loop still runs.

systemd listens at a Unix datagram socket, whose path is in NOTIFY_SOCKET (`Type=notify`, docs/how-to/deployment.md).
Other supervisors that understand the same messages set the same variables. Without these variables nothing is sent.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Final

from streamer.bridge.telemetry.logs import Log

log = Log("streamer.bridge")

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE: Final = "WATCHDOG_USEC"
PID_VARIABLE: Final = "WATCHDOG_PID"
# systemd recommends half of its limit. A third leaves room for a loop that is late once.
SHARE_OF_WATCHDOG: Final = 1 / 3


class SupervisorMessages:
    """Sends the messages. Inside `async with`, it also reports regularly that the event loop still runs."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment`: with the variables that a supervisor has set."""
        self._address = _address(environment.get(SOCKET_VARIABLE, ""))
        self._every_s = _watchdog_s(environment) * SHARE_OF_WATCHDOG
        self._beats: asyncio.Task[None] | None = None

    async def __aenter__(self) -> SupervisorMessages:
        if self._address and self._every_s:
            self._beats = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._beats is not None:
            self._beats.cancel()
            await asyncio.gather(self._beats, return_exceptions=True)

    def ready(self) -> None:
        """Report that the port answers and that the models are ready."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Report that the service is shutting down. This takes at most a little longer than --drain-limit."""
        self._send("STOPPING=1")

    async def _beat(self) -> None:
        # A loop that hangs sends nothing, and the supervisor kills and restarts the service.
        while True:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self._every_s)

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)  # a supervisor that does not read must not stop the service
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            log.warning("supervisor not told", message=message, detail=error.strerror or str(error))


def _address(path: str) -> str:
    """Return the address of the socket, or "". A path with @ in front is a name in the abstract namespace."""
    if path.startswith("@"):
        return f"\0{path[1:]}"
    return path if path.startswith("/") else ""


def _watchdog_s(environment: Mapping[str, str]) -> float:
    """Return the supervisor's limit between two messages; 0 if it wants none, or wants them from another process."""
    limit, process = environment.get(WATCHDOG_VARIABLE, ""), environment.get(PID_VARIABLE, "")
    if not limit.isdecimal() or (process and process != str(os.getpid())):
        return 0.0
    return int(limit) / 1e6
