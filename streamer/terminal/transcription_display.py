"""What a terminal shows while recordings are transcribed: nothing, the words of one of them, or how far it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from streamer.terminal.live_words import LiveWords
from streamer.terminal.progress_text import Progress
from streamer.terminal.status_lines import StatusLines

PATIENCE_S: Final = 1.0  # what is done sooner needs no progress
REDRAW_S: Final = 0.2

_LONG_MS: Final = 60_000


class TranscriptionDisplay:
    """Nothing: there is no terminal."""

    shows_words = False
    shows_all = False  # also recordings that others are written before, and those that have not begun

    def expect(self, index: int, duration_ms: int) -> None:
        """A recording that has not begun is so long."""

    def begin(self, index: int, name: str, duration_ms: int | None) -> None:
        """A recording begins; its length if it is known."""

    def words(self, index: int, partial: Mapping[str, Any]) -> None:
        """The words of the moment."""

    def heard(self, index: int, audio_ms: int) -> None:
        """So much of a recording has been heard."""

    def end(self, index: int) -> None:
        """Nothing more comes of a recording, whether it had begun or not."""

    def clear(self) -> None:
        """Takes away what changes, so that something else can be written."""

    def close(self) -> bool:
        """This was all; whether it has said what it came to."""
        self.clear()
        return False


class WordsDisplay(TranscriptionDisplay):
    """The words of one recording, as they are recognised, and how far a long one is."""

    shows_words = True

    def __init__(self, stream: TextIO, *, progress: bool) -> None:
        """`progress`: whether to tell how far the recording is, if it is a long one."""
        self._live = LiveWords(stream)
        self._tells = progress
        self._name = ""
        self._duration_ms: int | None = None
        self._began = self._drawn = time.monotonic()

    def begin(self, index: int, name: str, duration_ms: int | None) -> None:
        self._name, self._duration_ms = Path(name).name, duration_ms
        self._began = self._drawn = time.monotonic()

    def words(self, index: int, partial: Mapping[str, Any]) -> None:
        self._drawn = time.monotonic()
        self._live.partial(partial, below=self._progress(partial["audio_ms"]))

    def heard(self, index: int, audio_ms: int) -> None:
        # Where nobody speaks for long it goes on all the same.
        if time.monotonic() - self._drawn >= REDRAW_S and (progress := self._progress(audio_ms)):
            self._drawn = time.monotonic()
            self._live.silence(audio_ms, below=progress)

    def clear(self) -> None:
        self._live.clear()

    def _progress(self, heard_ms: int) -> str:
        elapsed_s = time.monotonic() - self._began
        if not self._tells or self._duration_ms is None or self._duration_ms < _LONG_MS or elapsed_s < PATIENCE_S:
            return ""
        return Progress(heard_ms, elapsed_s, self._duration_ms).of_one(self._name, self._live.columns - 1)


class ProgressDisplay(TranscriptionDisplay):
    """How far one recording is, whose words go elsewhere; drawn at most five times a second."""

    def __init__(self, stream: TextIO) -> None:
        self._line = StatusLines(stream)
        self._name = ""
        self._duration_ms: int | None = None
        self._began = self._drawn = time.monotonic()

    def begin(self, index: int, name: str, duration_ms: int | None) -> None:
        self.clear()
        self._name, self._duration_ms = Path(name).name, duration_ms
        self._began = self._drawn = time.monotonic()

    def heard(self, index: int, audio_ms: int) -> None:
        now = time.monotonic()
        if now - self._began < PATIENCE_S or now - self._drawn < REDRAW_S:
            return
        self._drawn = now
        progress = Progress(audio_ms, now - self._began, self._duration_ms)
        self._line.show([progress.of_one(self._name, self._line.size.columns - 1)])

    def clear(self) -> None:
        self._line.clear()
