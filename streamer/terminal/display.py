"""What a terminal shows while recordings are transcribed: one of them with its words, or how far all of them are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TextIO

from streamer.terminal.lines import LiveText, Progress
from streamer.transcript import channel_prefix

_LONG_MS: Final = 60_000


class Display:
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

    def end(self, index: int, *, failed: bool) -> None:
        """Nothing more comes of a recording, whether it had begun or not."""

    def clear(self) -> None:
        """Takes away what changes, so that something else can be written."""

    def close(self) -> None:
        """This was all."""
        self.clear()


class WordsDisplay(Display):
    """The words of one recording, as they are recognised."""

    shows_words = True

    def __init__(self, stream: TextIO, share: bool) -> None:
        """`share`: whether it tells how far the recording is, if there is only one and that is long."""
        self._live = LiveText(stream)
        self._share = share
        self._duration_ms: int | None = None

    def begin(self, index: int, name: str, duration_ms: int | None) -> None:
        self._duration_ms = duration_ms

    def words(self, index: int, partial: Mapping[str, Any]) -> None:
        channel = channel_prefix(partial)
        stable = len(channel) + partial["stable"]
        self._live.partial(
            channel + partial["text"], stable, partial["start_ms"], self._share_done(partial["audio_ms"])
        )

    def clear(self) -> None:
        self._live.clear()

    def _share_done(self, heard_ms: int) -> str:
        if not self._share or self._duration_ms is None or self._duration_ms < _LONG_MS:
            return ""
        return f"{min(100, heard_ms * 100 // self._duration_ms):3} % "


class ProgressDisplay(Display):
    """How far one recording is, whose words go elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._progress = Progress(stream)
        self._name = ""
        self._duration_ms: int | None = None

    def begin(self, index: int, name: str, duration_ms: int | None) -> None:
        self._name, self._duration_ms = name, duration_ms
        self._progress.restart()

    def heard(self, index: int, audio_ms: int) -> None:
        self._progress.update(self._name, audio_ms, self._duration_ms)

    def clear(self) -> None:
        self._progress.clear()
