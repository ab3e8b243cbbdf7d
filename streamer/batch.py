"""Recordings through a session each, one after the other; what is wrong with one does not stop the others."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from typing import Any, Final

from streamer.audio.files import AudioFile, Block, raw_pcm
from streamer.audio.recording import AudioError
from streamer.client import StreamError, transcribe
from streamer.embedded import Embedded
from streamer.output import Output, OutputError
from streamer.recordings import STDIN
from streamer.timing import Timing

# With these no other recording can succeed either.
_HOPELESS: Final = ("away", "bad_address", "no_service", "refused")

_MOMENTS: Final = {"ready": "session open", "partial": "first partial", "final": "first final"}


class Batch:
    """The recordings of one command line, with the service for them: its URL, or one of our own."""

    def __init__(self, options: argparse.Namespace, output: Output, timing: Timing, service: str | Embedded) -> None:
        self._output = output
        self._timing = timing
        self._service = service
        self._paced: bool = options.paced
        self._options: dict[str, Any] = {"partials": output.wants_partials or options.timing}
        chosen = {"step_ms": options.step_ms, "search": options.search}
        self._options |= {name: value for name, value in chosen.items() if value is not None}

    async def run(self, names: list[str]) -> int:
        """0 if all of them were transcribed, else 1."""
        failed = 0
        async with AsyncExitStack() as stack:
            url = self._service if isinstance(self._service, str) else ""
            for name in names:
                try:
                    with _opened(name) as (blocks, duration_ms):
                        # Only now: a server need not become ready for what turns out to be no audio.
                        if isinstance(self._service, Embedded) and not url:
                            url = await stack.enter_async_context(self._service.serving())
                        self._output.begin(name, duration_ms)
                        await self._transcribe(blocks, url)
                except AudioError as error:
                    failed += 1
                    self._output.say(f"streamer: {error}")
                except StreamError as error:
                    failed += 1
                    self._output.say(f"streamer: {name}: {error}")
                    if error.code in _HOPELESS:
                        break
                except OutputError as error:
                    self._output.say(f"streamer: {error}")
                    return 1
            self._timing.mark("done")
        return int(failed > 0)

    async def _transcribe(self, blocks: Iterator[Block], url: str) -> None:
        events = transcribe(blocks, url, options=self._options, paced=self._paced)
        async with aclosing(events):
            async for event in events:
                if event["type"] in _MOMENTS:
                    self._timing.mark(_MOMENTS[event["type"]])
                self._output.take(event)
        self._output.end()


@contextmanager
def _opened(name: str) -> Iterator[tuple[Iterator[Block], int | None]]:
    """The sound of a recording, and its length if that is known."""
    if name == STDIN:
        yield raw_pcm(sys.stdin.fileno()), None
        return
    with AudioFile(name) as recording:
        yield recording.blocks(), round(recording.duration_s * 1000)
