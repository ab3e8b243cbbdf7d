"""Which service a command uses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest

import streamer.commands.service
from streamer.base.address import is_ready
from streamer.base.timing import Timing
from streamer.bridge.service import Service
from streamer.commands.service import EMBEDDED, ReadyService, chosen_service


def used(ready_service: ReadyService) -> tuple[str, bool]:
    """The URL that it gives, and whether a service is ready there."""

    async def use() -> tuple[str, bool]:
        async with ready_service() as url:
            parts = urlsplit(url)
            return url, await asyncio.to_thread(is_ready, str(parts.hostname), int(parts.port or 0))

    return asyncio.run(use())


def test_one_that_was_named() -> None:
    """A named service is used, whether it exists or not."""
    with chosen_service("ws://127.0.0.1:1/v1/stream", Timing()) as ready_service:
        assert used(ready_service) == ("ws://127.0.0.1:1/v1/stream", False)


def test_one_of_this_machine(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ready service on the usual port is used, and none is started."""
    monkeypatch.setattr(streamer.commands.service, "DEFAULT_PORT", urlsplit(service.url).port)
    before = psutil.Process().children()
    with chosen_service(None, Timing()) as ready_service:
        assert used(ready_service) == (service.url, True)
        assert psutil.Process().children() == before


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    """Undo what an embedded service sets for the whole process."""
    loggers = [logging.getLogger(name) for name in (None, "streamer")]
    before = [(logger, logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.mark.usefixtures("logging_as_before")
def test_one_of_our_own() -> None:
    """A service is started, and nothing of it is left afterwards."""
    before = set(psutil.Process().children(recursive=True))
    with chosen_service(EMBEDDED, Timing()) as ready_service:
        ours = set(psutil.Process().children(recursive=True)) - before
        assert ours
        assert used(ready_service)[1]
    assert psutil.wait_procs(list(ours), timeout=60)[1] == []
