"""A site that takes the events of webhooks, keeps them, and answers as it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

TAKEN: Final = b"HTTP/1.1 204 No Content\r\n\r\n"


@dataclass(frozen=True)
class Delivery:
    """One request of a webhook."""

    headers: dict[str, str]  # by name in lower case
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        """What it says."""
        event: dict[str, Any] = json.loads(self.body)
        return event


Answer = Callable[[Delivery, asyncio.StreamWriter], Awaitable[object]]
"""Writes the answer to a delivery. Then the connection is closed."""


async def take(delivery: Delivery, writer: asyncio.StreamWriter) -> None:
    """Take it."""
    writer.write(TAKEN)


class WebhookReceiver:
    """Listens from entry to exit."""

    def __init__(self, answer: Answer = take) -> None:
        self.answer = answer
        self.deliveries: list[Delivery] = []
        self.url = ""
        self._server: asyncio.Server | None = None
        self._over = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def events(self) -> list[dict[str, Any]]:
        """What came, each event once, in the order in which it came first."""
        by_id = {delivery.headers["webhook-id"]: delivery.event for delivery in reversed(self.deliveries)}
        return [by_id[each] for each in dict.fromkeys(other.headers["webhook-id"] for other in self.deliveries)]

    async def __aenter__(self) -> WebhookReceiver:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/words"
        return self

    async def __aexit__(self, *details: object) -> None:
        assert self._server is not None
        self._over = True  # also for a connection that was accepted and whose task has not run yet
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until_ended(self, limit_s: float = 60.0) -> list[dict[str, Any]]:
        """Wait for the last event of a session, and return all that came."""
        for _ in range(round(limit_s / 0.02)):
            if any(event["type"] == "ended" for event in self.events):
                break
            await asyncio.sleep(0.02)
        return self.events

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._over:
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # asyncio would report that the task was cancelled.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                pairs = (line.partition(":") for line in lines[1:])
                headers = {name.lower(): value.strip() for name, _, value in pairs}
                delivery = Delivery(headers, await reader.readexactly(int(headers["content-length"])))
                self.deliveries.append(delivery)
                await self.answer(delivery, writer)
                await writer.drain()
        finally:
            self._tasks.discard(task)
            writer.close()
