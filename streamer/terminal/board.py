"""How far several recordings are: a line for each that is in work, and one for all of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from streamer.terminal.display import Display
from streamer.terminal.lines import StatusBlock, beginning, columns, ending
from streamer.transcript import channel_prefix, short_timestamp

_PATIENCE_S: Final = 1.0  # what is done sooner needs no progress
_REDRAW_S: Final = 0.2
_MOST_ROWS: Final = 8
_NAME_COLUMNS: Final = 24
_BAR_COLUMNS: Final = 10


@dataclass
class Row:
    """A recording in work."""

    name: str
    duration_ms: int | None
    heard_ms: int = 0
    words: str = ""


class Board(Display):
    """The rows and the sum, drawn at most five times a second."""

    shows_all = True

    def __init__(self, stream: TextIO, count: int, *, words: bool) -> None:
        """`words`: whether rows show the words of the moment."""
        self.shows_words = words
        self._block = StatusBlock(stream)
        self._blocks = (stream.encoding or "").lower().startswith("utf")
        self._count = count
        self._done = self._failed = 0
        self._rows: dict[int, Row] = {}
        self._durations: dict[int, int] = {}
        self._heard_ms = 0  # of those that are done
        self._began = self._drawn = 0.0

    def expect(self, index: int, duration_ms: int) -> None:
        """A recording that has not begun is so long."""
        self._durations[index] = duration_ms

    def begin(self, index: int, name: str, duration_ms: int | None) -> None:
        """A recording begins; its length if it is known."""
        self._began = self._began or time.monotonic()
        self._rows[index] = Row(Path(name).name, duration_ms)
        if duration_ms is not None:
            self._durations[index] = duration_ms

    def words(self, index: int, partial: Mapping[str, Any]) -> None:
        """The words of the moment."""
        self._rows[index].words = channel_prefix(partial) + partial["text"]

    def heard(self, index: int, audio_ms: int) -> None:
        """So much of a recording has been heard."""
        self._rows[index].heard_ms = audio_ms
        now = time.monotonic()
        if now - self._began >= _PATIENCE_S and now - self._drawn >= _REDRAW_S:
            self._drawn = now
            self._block.show([*self._lines(), self._sum(now - self._began)])

    def end(self, index: int, *, failed: bool) -> None:
        """Nothing more comes of a recording, whether it had begun or not."""
        self._done += 1
        self._failed += failed
        row = self._rows.pop(index, None)
        heard_ms = row.heard_ms if row else 0
        self._heard_ms += heard_ms
        self._durations[index] = heard_ms  # a damaged one is not as long as it says

    def clear(self) -> None:
        """Takes the lines away, until the next word."""
        self._block.clear()
        self._drawn = 0.0

    def close(self) -> None:
        """What it came to stays, unless it was a matter of a moment."""
        self.clear()
        elapsed = time.monotonic() - self._began
        if self._began and elapsed >= _PATIENCE_S:
            self._block.keep(self._total(elapsed))

    def _lines(self) -> list[str]:
        width, height = self._block.size
        shown = [row for _, row in sorted(self._rows.items())][: max(1, min(_MOST_ROWS, height - 3))]
        name_width = min(_NAME_COLUMNS, max((columns(row.name) for row in shown), default=0))
        lines = [self._line(row, name_width, width - 1) for row in shown]
        if hidden := len(self._rows) - len(shown):
            lines.append(f"… and {hidden} more")
        return lines

    def _line(self, row: Row, name_width: int, width: int) -> str:
        name = beginning(row.name, name_width)
        name += " " * (name_width - columns(name))
        if row.duration_ms:
            share = min(1.0, row.heard_ms / row.duration_ms)
            line = f"{name}  {self._bar(share)} {share:4.0%}  "
        else:
            line = f"{name}  {short_timestamp(row.heard_ms):>{_BAR_COLUMNS + 5}}  "
        return line + ending(row.words, max(0, width - columns(line)))

    def _bar(self, share: float) -> str:
        full = round(share * _BAR_COLUMNS)
        done, left = ("█", "░") if self._blocks else ("#", ".")
        return done * full + left * (_BAR_COLUMNS - full)

    def _sum(self, elapsed_s: float) -> str:
        """All of them: how far, how fast, how long still."""
        heard_ms = self._heard_ms + sum(row.heard_ms for row in self._rows.values())
        speed = heard_ms / 1000 / elapsed_s if elapsed_s > 0 else 0.0
        parts = [
            self._counted(),
            f"{short_timestamp(heard_ms)[:-2]}{self._share(heard_ms)}",
            f"{speed:.1f} times real time",
        ]
        if speed > 0 and (whole_ms := self._whole_ms()):
            left_ms = max(0, round((whole_ms - heard_ms) / speed))
            parts.append(f"{short_timestamp(left_ms)[:-2]} left")
        return ", ".join(parts)

    def _total(self, elapsed_s: float) -> str:
        heard_ms = self._heard_ms + sum(row.heard_ms for row in self._rows.values())
        elapsed = short_timestamp(round(elapsed_s * 1000))
        speed = heard_ms / 1000 / elapsed_s
        return f"{self._counted()}, {short_timestamp(heard_ms)[:-2]} in {elapsed}, {speed:.1f} times real time"

    def _counted(self) -> str:
        failed = f" ({self._failed} failed)" if self._failed else ""
        return f"{self._done} of {self._count} recordings{failed}"

    def _share(self, heard_ms: int) -> str:
        whole_ms = self._whole_ms()
        if not whole_ms:
            return ""
        about = "" if len(self._durations) == self._count else "about "
        return f" of {about}{short_timestamp(whole_ms)[:-2]} ({min(100, heard_ms * 100 // whole_ms)} %)"

    def _whole_ms(self) -> int:
        """How long all are; those whose length is not known are taken for as long as the others."""
        known = len(self._durations)
        return sum(self._durations.values()) * self._count // known if known else 0
