"""Displays for a terminal while recordings are transcribed: nothing, the words of one recording, or progress."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from streamer.terminal.live_words import LiveWords
from streamer.terminal.progress_text import Progress
from streamer.terminal.status_lines import StatusLines

PATIENCE_S: Final = 1.0  # anything faster needs no progress
REDRAW_S: Final = 0.2

_LONG_MS: Final = 60_000


class TranscriptionDisplay:
    """The display without a terminal, which shows nothing."""

    shows_words = False
    shows_all = False  # also recordings that wait for their turn in the output, and those that have not begun

    def expect(self, index: int, duration_ms: int) -> None:
        """Note the length of a recording that has not begun."""

    def begin(self, index: int, name: str, duration_ms: int | None) -> None:
        """Note that a recording begins. `duration_ms`: its length if known."""

    def words(self, index: int, partial: Mapping[str, Any]) -> None:
        """Show the present words."""

    def advance(self, index: int, audio_ms: int) -> None:
        """Show how much of a recording was recognised."""

    def end(self, index: int) -> None:
        """Note that a recording ends, whether it had begun or not."""

    def clear(self) -> None:
        """Erase the changing lines, so that something else can be written."""

    def close(self) -> bool:
        """End the display. Returns whether it left a summary."""
        self.clear()
        return False


class WordsDisplay(TranscriptionDisplay):
    """The words of one recording as they are recognised, and the progress of a long one."""

    shows_words = True

    def __init__(self, stream: TextIO, *, progress: bool) -> None:
        """`progress`: whether to show the progress of a long recording."""
        self._live = LiveWords(stream)
        self._shows_progress = progress
        self._name = ""
        self._duration_ms: int | None = None
        self._began = self._drawn = time.monotonic()

    def begin(self, index: int, name: str, duration_ms: int | None) -> None:
        self._name, self._duration_ms = Path(name).name, duration_ms
        self._began = self._drawn = time.monotonic()

    def words(self, index: int, partial: Mapping[str, Any]) -> None:
        self._drawn = time.monotonic()
        self._live.partial(partial, below=self._progress(partial["audio_ms"]))

    def advance(self, index: int, audio_ms: int) -> None:
        # Progress goes on even if nobody speaks for a long time.
        if time.monotonic() - self._drawn >= REDRAW_S and (progress := self._progress(audio_ms)):
            self._drawn = time.monotonic()
            self._live.silence(audio_ms, below=progress)

    def clear(self) -> None:
        self._live.clear()

    def _progress(self, heard_ms: int) -> str:
        elapsed_s = time.monotonic() - self._began
        is_long = self._duration_ms is not None and self._duration_ms >= _LONG_MS
        if not self._shows_progress or not is_long or elapsed_s < PATIENCE_S:
            return ""
        return Progress(heard_ms, elapsed_s, self._duration_ms).of_one(self._name, self._live.columns - 1)


class ProgressDisplay(TranscriptionDisplay):
    """The progress of one recording whose words go elsewhere. Drawn at most five times a second."""

    def __init__(self, stream: TextIO) -> None:
        self._line = StatusLines(stream)
        self._name = ""
        self._duration_ms: int | None = None
        self._began = self._drawn = time.monotonic()

    def begin(self, index: int, name: str, duration_ms: int | None) -> None:
        self.clear()
        self._name, self._duration_ms = Path(name).name, duration_ms
        self._began = self._drawn = time.monotonic()

    def advance(self, index: int, audio_ms: int) -> None:
        now = time.monotonic()
        if now - self._began < PATIENCE_S or now - self._drawn < REDRAW_S:
            return
        self._drawn = now
        progress = Progress(audio_ms, now - self._began, self._duration_ms)
        self._line.show([progress.of_one(self._name, self._line.size.columns - 1)])

    def clear(self) -> None:
        self._line.clear()
