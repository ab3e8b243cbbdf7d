"""The site that takes the events of webhooks, at its end."""

from __future__ import annotations

import asyncio

from workshop.soak.webhook_receiver import WebhookReceiver


async def test_a_connection_that_comes_at_the_end_is_closed() -> None:
    """A task that begins only after the exit waits for nothing: its client sees the end of the connection."""
    receiver = WebhookReceiver()
    begin = receiver._serve

    async def hold_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await left.wait()
        await begin(reader, writer)

    arrived, left = asyncio.Event(), asyncio.Event()
    receiver._serve = hold_back  # type: ignore[method-assign]
    async with receiver:
        host, port = receiver.url.removeprefix("http://").removesuffix("/words").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        await asyncio.wait_for(arrived.wait(), 60)
    left.set()
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
