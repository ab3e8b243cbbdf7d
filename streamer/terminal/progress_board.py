"""Shows the progress of several recordings: a line for each that is being transcribed, and one for all of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from streamer.terminal.progress_text import Progress, Tally
from streamer.terminal.status_lines import StatusLines
from streamer.terminal.text_width import beginning, columns, ending, printable
from streamer.terminal.transcription_display import PATIENCE_S, REDRAW_S, TranscriptionDisplay
from streamer.transcript import channel_prefix, short_timestamp

_MOST_ROWS: Final = 8
_NAME_COLUMNS: Final = 24
_BAR_COLUMNS: Final = 10


@dataclass
class _Row:
    """A recording that is being transcribed."""

    name: str
    duration_ms: int | None
    heard_ms: int = 0
    words: str = ""


class ProgressBoard(TranscriptionDisplay):
    """A row for each recording and a line about all, drawn at most five times a second."""

    shows_all = True

    def __init__(self, stream: TextIO, tally: Tally, *, words: bool) -> None:
        """`words`: whether rows show the present words."""
        self.shows_words = words
        self._lines = StatusLines(stream)
        self._blocks = (stream.encoding or "").lower().startswith("utf")
        self._tally = tally
        # Recordings that cannot be read or are skipped do not count.
        self._count = tally.named - tally.failed - tally.skipped
        self._rows: dict[int, _Row] = {}
        self._durations: dict[int, int] = {}
        self._ended_ms = 0  # recognised in recordings that have ended
        self._began = self._drawn = 0.0

    def expect(self, index: int, duration_ms: int) -> None:
        """Note the length of a recording that has not begun."""
        self._durations[index] = duration_ms

    def begin(self, index: int, name: str, duration_ms: int | None) -> None:
        """Note that a recording begins. `duration_ms`: its length if known."""
        self._began = self._began or time.monotonic()
        self._rows[index] = _Row(printable(Path(name).name), duration_ms)
        if duration_ms is not None:
            self._durations[index] = duration_ms

    def words(self, index: int, partial: Mapping[str, Any]) -> None:
        """Show the present words."""
        self._rows[index].words = printable(channel_prefix(partial) + partial["text"])

    def advance(self, index: int, audio_ms: int) -> None:
        """Show how much of a recording was recognised."""
        self._rows[index].heard_ms = audio_ms
        now = time.monotonic()
        if now - self._began >= PATIENCE_S and now - self._drawn >= REDRAW_S:
            self.draw()

    def draw(self) -> None:
        """Draw the present state."""
        self._drawn = time.monotonic()
        width, height = self._lines.size
        rows = [row for _, row in sorted(self._rows.items())][: max(1, min(_MOST_ROWS, height - 3))]
        longest = max((columns(row.name) for row in rows), default=0)
        name_width = min(longest, _NAME_COLUMNS, width // 3)
        lines = [self._line(row, name_width, width - 1) for row in rows]
        if hidden := len(self._rows) - len(rows):
            lines.append(f"… and {hidden} more")
        progress = self._progress(self._drawn - self._began)
        sum_of_all = progress.of_all(self._tally, width - 1)
        self._lines.show([*lines, sum_of_all])

    def end(self, index: int) -> None:
        """Note that a recording ends, whether it had begun or not."""
        row = self._rows.pop(index, None)
        heard_ms = row.heard_ms if row else 0
        self._ended_ms += heard_ms
        self._durations[index] = heard_ms  # a damaged recording is shorter than its header says

    def clear(self) -> None:
        """Erase the lines until something is drawn again."""
        self._lines.clear()
        self._drawn = 0.0

    def close(self) -> bool:
        """Leave a summary, unless all took less than PATIENCE_S. Return whether there is one."""
        self.clear()
        elapsed = time.monotonic() - self._began
        lasted = bool(self._began) and elapsed >= PATIENCE_S
        if lasted:
            self._lines.keep(self._progress(elapsed).at_the_end(self._tally))
        return lasted

    def _line(self, row: _Row, name_width: int, width: int) -> str:
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
        full_cell, empty_cell = ("█", "░") if self._blocks else ("#", ".")
        return full_cell * full + empty_cell * (_BAR_COLUMNS - full)

    def _progress(self, elapsed_s: float) -> Progress:
        """Return the progress of all. Recordings of unknown length are assumed to have the average length."""
        heard_ms = self._ended_ms + sum(row.heard_ms for row in self._rows.values())
        with_length = len(self._durations)
        whole_ms = sum(self._durations.values()) * self._count // with_length if with_length else None
        return Progress(heard_ms, elapsed_s, whole_ms, estimated=with_length < self._count)
