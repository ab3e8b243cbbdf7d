"""A whole service inside this process while one command runs: a Triton server with the bridge in front of it.

The server is spawned first: while its processes start, this process imports the rest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from streamer.base.limits import DEFAULT_MODEL
from streamer.base.names import model_name
from streamer.base.package import install_command
from streamer.base.timing import Timing
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.repository import asr_repository, is_public
from streamer.bridge.triton.server import TritonServer
from streamer.models.readers import ChosenReader, choose_reader
from streamer.models.whisper_folder import holds_whisper


class Embedded:
    """Spawns a Triton server on entry, and stops it on exit."""

    def __init__(
        self, timing: Timing, folder: Path | None = None, *, listeners: int = 0, speakers: bool = False
    ) -> None:
        """`folder`: the model, if it is not the shipped one. `listeners`: how many may read a session along.

        `speakers`: whether speakers will be told apart.
        """
        self._timing = timing
        self._listeners = listeners
        self._model = model_name(folder) if folder else MODEL
        # A second instance would only slow the start: both would share the processor.
        whisper = folder is not None and holds_whisper(folder)
        if folder is not None and whisper:
            reader: ChosenReader | None = ChosenReader(self._model, folder)
            folder = asr_repository() / MODEL
        else:  # public models do not use a reader
            reader = None if folder and is_public(folder) else choose_reader(alone=True)
        folders = {self._model: folder} if folder else {}
        self._triton = TritonServer(
            asr_repository(),
            models=[self._model],
            folders=folders,
            instances=1,
            reader=None if reader is None else reader.folder,
            reads_alone=[self._model] if whisper else [],
            speakers=speakers,
            private=True,
        )

    def __enter__(self) -> Embedded:
        self._triton.start()
        self._timing.mark("Triton spawned")
        return self

    def __exit__(self, *details: object) -> None:
        self._triton.stop()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Wait until the service is ready, and provide its URL."""
        try:
            from streamer.bridge.access.rules import PortPolicy
            from streamer.bridge.service import Service
            from streamer.bridge.telemetry import logs
        except ImportError as error:
            reason = f"an embedded service needs the package {error.name}"
            raise TritonError(f"{reason}: {install_command('embedded')}, or use --server.") from error
        # The client tells the user what goes wrong with a session. So only errors that nothing else reports are logged.
        logs.configure("text", "error")
        self._timing.mark("bridge imported")
        models, policy = {DEFAULT_MODEL: self._model}, PortPolicy(listeners=self._listeners)
        async with Service(self._triton, port=0, models=models, policy=policy) as service:
            self._timing.mark("service ready")
            self._timing.notes += self._triton.loads()
            try:
                yield service.url
            except BaseException:
                await service.hurry()  # nobody waits for words any more, for example after Ctrl-C
                raise
