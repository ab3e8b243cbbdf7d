"""Recordings through a session each, one after the other; what is wrong with one does not stop the others."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import dataclass
from typing import Final

from streamer.audio.codecs import Decoder
from streamer.audio.files import SAMPLE_RATE, AudioFile, Block, raw_pcm
from streamer.audio.recording import AudioError
from streamer.client import StreamError, transcribe
from streamer.embedded import Embedded
from streamer.output import Output, OutputError
from streamer.recordings import STDIN
from streamer.timing import Timing
from streamer.wishes import wishes

# With these no other recording can succeed either.
_HOPELESS: Final = ("away", "bad_address", "bad_origin", "no_service", "refused", "unauthorized", "untrusted")

_MOMENTS: Final = {"ready": "session open", "partial": "first partial", "final": "first final"}


@dataclass(frozen=True)
class _Sound:
    """A recording that was opened, and its length if that is known."""

    blocks: Iterator[Block]
    channels: int
    duration_ms: int | None


class Batch:
    """The recordings of one command line, with the service for them: its URL, or one of our own."""

    def __init__(self, options: argparse.Namespace, output: Output, timing: Timing, service: str | Embedded) -> None:
        self._output = output
        self._timing = timing
        self._service = service
        self._paced: bool = options.paced
        self._separate: bool = options.channels == "separate"
        self._raw = (options.encoding or "pcm_s16le", options.sample_rate or SAMPLE_RATE, options.input_channels or 1)
        self._options = {"partials": output.wants_partials or options.timing, **wishes(options)}

    async def run(self, names: list[str]) -> int:
        """0 if all of them were transcribed, else 1."""
        failed = 0
        async with AsyncExitStack() as stack:
            url = self._service if isinstance(self._service, str) else ""
            for name in names:
                try:
                    with self._opened(name) as sound:
                        # Only now: a server need not become ready for what turns out to be no audio.
                        if isinstance(self._service, Embedded) and not url:
                            url = await stack.enter_async_context(self._service.serving())
                        self._output.begin(name, sound.duration_ms)
                        await self._transcribe(sound, url)
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

    async def _transcribe(self, sound: _Sound, url: str) -> None:
        options = self._options
        if self._separate:
            options = {**options, "channels": sound.channels, "multichannel": True}
        events = transcribe(sound.blocks, url, options=options, paced=self._paced)
        async with aclosing(events):
            async for event in events:
                if event["type"] in _MOMENTS:
                    self._timing.mark(_MOMENTS[event["type"]])
                self._output.take(event)
        self._output.end()

    @contextmanager
    def _opened(self, name: str) -> Iterator[_Sound]:
        if name == STDIN:
            decoder = Decoder(*self._raw, separate=self._separate)
            yield _Sound(raw_pcm(sys.stdin.fileno(), decoder), decoder.lanes, None)
            return
        with AudioFile(name, separate=self._separate) as recording:
            yield _Sound(recording.blocks(), recording.channels, round(recording.duration_s * 1000))
