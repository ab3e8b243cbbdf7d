"""Lines that change in place at the bottom of a terminal: the words of the moment, and how far a file is."""

from __future__ import annotations

import os
import time
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from streamer.transcript import short_timestamp

_CLEAR: Final = "\r\x1b[K"
_DIM: Final = "\x1b[2m"
_NORMAL: Final = "\x1b[0m"
_CLEAR_BELOW: Final = "\x1b[J"
_FALLBACK: Final = os.terminal_size((80, 24))
_PATIENCE_S: Final = 1.0  # a file that is done sooner needs no progress
_REDRAW_S: Final = 0.2


def is_terminal(stream: TextIO) -> bool:
    """Whether lines on it can be changed in place."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class StatusLine:
    """One line that is overwritten until something stays; never wider than the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # https://no-color.org: set and not empty. Dimming is all the colour there is.
        self._dims = not os.environ.get("NO_COLOR")
        self._shown = False

    def show(self, start: str, text: str, stable: int) -> None:
        """Draws `start` and as much of the end of `text` as fits; all but its first `stable` characters dim."""
        start, text = printable(start), printable(text)
        room = self._width() - 1 - columns(start)
        cut = _first_that_fits(text, room)
        firm, loose = text[cut:stable], text[max(cut, stable) :]
        if cut:
            firm, loose = ("…" + firm, loose) if firm else ("", "…" + loose)
        if loose and self._dims:
            loose = f"{_DIM}{loose}{_NORMAL}"
        self._write(f"{_CLEAR}{start}{firm}{loose}")
        self._shown = True

    def clear(self) -> None:
        """Takes the line away, if there is one."""
        if self._shown:
            self._write(_CLEAR)
            self._shown = False

    def keep(self, line: str) -> None:
        """Writes a line that stays, in place of the one that changes."""
        self.clear()
        self._write(printable(line) + "\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _width(self) -> int:
        return _size(self._stream).columns


class StatusBlock:
    """Several lines at the bottom of a terminal that are overwritten; each is cut to its width."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = 0

    @property
    def size(self) -> os.terminal_size:
        """Columns and lines that there are."""
        return _size(self._stream)

    def show(self, lines: Sequence[str]) -> None:
        """Draws these lines in the place of the earlier ones."""
        width = self.size.columns - 1
        text = "\n".join(beginning(printable(line), width) for line in lines)
        self._stream.write(self._erased() + text)
        self._stream.flush()
        self._shown = len(lines)

    def clear(self) -> None:
        """Takes the lines away, if there are any."""
        if self._shown:
            self._stream.write(self._erased())
            self._stream.flush()
            self._shown = 0

    def keep(self, line: str) -> None:
        """Writes a line that stays, in place of those that change."""
        self.clear()
        self._stream.write(printable(line) + "\n")
        self._stream.flush()

    def _erased(self) -> str:
        if not self._shown:
            return ""
        return "\r" + (f"\x1b[{self._shown - 1}A" if self._shown > 1 else "") + _CLEAR_BELOW


class LiveText:
    """Words as they are recognised: partials change in place, each final becomes a line with its time."""

    def __init__(self, stream: TextIO) -> None:
        self._line = StatusLine(stream)

    def partial(self, text: str, stable: int, start_ms: int, progress: str = "") -> None:
        """Shows what was understood so far; it may change, but for its first `stable` characters."""
        self._line.show(f"{progress}[{short_timestamp(start_ms)}] ", text, stable)

    def final(self, text: str, start_ms: int) -> None:
        """Writes a line that stays."""
        self._line.keep(f"[{short_timestamp(start_ms)}] {text}")

    def clear(self) -> None:
        """Takes away what did not become final."""
        self._line.clear()


class Progress:
    """How far a recording is, how fast, and how long it still takes."""

    def __init__(self, stream: TextIO) -> None:
        self._line = StatusLine(stream)
        self._began = self._drawn = time.monotonic()

    def restart(self) -> None:
        """A new recording begins."""
        self._line.clear()
        self._began = self._drawn = time.monotonic()

    def update(self, name: str, heard_ms: int, duration_ms: int | None) -> None:
        """Draws the state anew, unless that was done a moment ago or the recording has only begun."""
        now = time.monotonic()
        if now - self._began < _PATIENCE_S or now - self._drawn < _REDRAW_S:
            return
        self._drawn = now
        line = described(heard_ms, duration_ms, now - self._began)
        self._line.show("", f"{Path(name).name}  {line}", 1 << 30)

    def clear(self) -> None:
        """Takes the line away."""
        self._line.clear()


def described(heard_ms: int, duration_ms: int | None, elapsed_s: float) -> str:
    """Progress in words: 1:02.0 of 10:00.0 (10 %), 12.4 times real time, 0:43 left."""
    speed = heard_ms / 1000 / elapsed_s if elapsed_s > 0 else 0.0
    if not duration_ms:
        return f"{short_timestamp(heard_ms)}, {speed:.1f} times real time"
    share = min(100, heard_ms * 100 // duration_ms)
    line = f"{short_timestamp(heard_ms)} of {short_timestamp(duration_ms)} ({share} %), {speed:.1f} times real time"
    if speed > 0:
        left = max(0.0, (duration_ms - heard_ms) / 1000 / speed)
        line += f", {short_timestamp(round(left * 1000))[:-2]} left"
    return line


def printable(text: str) -> str:
    """The text without characters that would move the cursor or colour the screen."""
    return "".join(" " if unicodedata.category(character) in ("Cc", "Cf") else character for character in text)


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(_columns(character) for character in text)


def beginning(text: str, room: int) -> str:
    """The text, or as much of its beginning as fits, with an ellipsis."""
    if columns(text) <= room:
        return text
    room -= 1
    for index, character in enumerate(text):
        room -= _columns(character)
        if room < 0:
            return text[:index] + "…"
    return text


def ending(text: str, room: int) -> str:
    """The text, or as much of its end as fits, with an ellipsis."""
    cut = _first_that_fits(text, room)
    return "…" + text[cut:] if cut else text


def _size(stream: TextIO) -> os.terminal_size:
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return _FALLBACK
    return os.terminal_size((columns or _FALLBACK.columns, lines or _FALLBACK.lines))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _first_that_fits(text: str, room: int) -> int:
    """From which character on the text fits, with a column for the ellipsis if it does not fit whole."""
    if columns(text) <= room:
        return 0
    room -= 1
    for index in range(len(text) - 1, -1, -1):
        room -= _columns(text[index])
        if room < 0:
            return index + 1
    return 0
