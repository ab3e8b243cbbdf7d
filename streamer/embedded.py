"""A whole service inside this process, for as long as one command runs: a Triton server and the bridge in front.

The server is spawned first: while its processes import torch, this one imports the rest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streamer.distribution import install_command
from streamer.timing import Timing
from streamer.triton import MODEL, TritonError
from streamer.triton.repository import asr_repository
from streamer.triton.server import TritonServer


class Embedded:
    """Spawned on entry; on exit nothing is left running."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        # One instance: a second one would only share the processor while both start.
        self._triton = TritonServer(asr_repository(), models=[MODEL], instances=1, private=True)

    def __enter__(self) -> Embedded:
        self._triton.start()
        self._timing.mark("Triton spawned")
        return self

    def __exit__(self, *details: object) -> None:
        self._triton.stop()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Waits until the service is ready; its URL."""
        try:
            from streamer.bridge.service import Service
            from streamer.bridge.telemetry import logs
        except ImportError as error:
            missing = f"a service of our own needs the package {error.name}"
            raise TritonError(f"{missing}: {install_command('embedded')}, or use --server.") from error
        # What goes wrong with a session its client is told, and the user by it: only what nobody else tells is logged.
        logs.configure("text", "error")
        self._timing.mark("bridge imported")
        async with Service(self._triton, port=0) as service:
            self._timing.mark("service ready")
            yield service.url
