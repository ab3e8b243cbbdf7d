"""What a terminal shows while recordings are transcribed: nothing, the words of one, or the progress of several."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from streamer.base.text import part_of, printable
from streamer.base.transcript import channel_prefix, clock, short_timestamp
from streamer.commands.terminal.status_lines import (
    LiveWords,
    StatusLines,
    beginning,
    columns,
    ending,
    first_that_fits,
)

# Displays for a terminal while recordings are transcribed: nothing, the words of one recording, or progress.

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


# The progress of recordings as text: how much was recognised, how fast, and how long it still takes.

# A name is cut to this many columns before the rest is shortened.
_LEAST_NAME_COLUMNS: Final = 16


@dataclass
class Tally:
    """The number of recordings that the user named, and how many were done, failed or were skipped."""

    named: int
    done: int = 0
    failed: int = 0
    skipped: int = 0  # their transcripts existed already
    interrupted: bool = False

    def __str__(self) -> str:
        """Return a text such as: 2 of 5 recordings; 3 failed."""
        parts = [part_of(self.done, self.named, "recording")]
        parts += [f"{self.failed} failed"] * bool(self.failed)
        parts += [f"{self.skipped} already there"] * bool(self.skipped)
        parts += ["interrupted"] * self.interrupted
        return "; ".join(parts)


@dataclass(frozen=True)
class Progress:
    """How much audio was recognised, and in what time."""

    heard_ms: int
    elapsed_s: float
    whole_ms: int | None = None  # if known
    estimated: bool = False  # whether `whole_ms` is

    def of_one(self, name: str, room: int) -> str:
        """Return: talk.wav  1:02 of 10:00 (10 %), 12.4 times real time, 0:43 left. Or the part of it that fits."""
        for text in self._choices():
            name_room = room - columns(text) - 2
            if name_room >= min(_LEAST_NAME_COLUMNS, columns(name)):
                return f"{beginning(name, name_room)}  {text}"
        return first_that_fits(self._choices(), room)

    def of_all(self, tally: Tally, room: int) -> str:
        """Return: 3 of 8 recordings, 1:02 of 10:00 (10 %), 12.4 times real time, 0:43 left. Or the part that fits."""
        choices = [_join(tally, text) for text in self._choices()]
        return first_that_fits([*choices, *self._choices()], room)

    def at_the_end(self, tally: Tally) -> str:
        """Return the line that stays at the end."""
        took = f"{clock(self.heard_ms)} in {short_timestamp(round(self.elapsed_s * 1000))}"
        return _join(tally, f"{took}, {self._speed:.1f} times real time")

    def _choices(self) -> Iterator[str]:
        """Yield the progress in shorter and shorter forms."""
        amount, speed, remaining, share = clock(self.heard_ms), self._speed, "", ""
        if self.whole_ms:
            percent = f"{min(100, self.heard_ms * 100 // self.whole_ms)} %"
            amount += f" of {'about ' if self.estimated else ''}{clock(self.whole_ms)} ({percent})"
            remaining = f"{clock(max(0, round((self.whole_ms - self.heard_ms) / speed)))} left" if speed else ""
            share = percent
        for parts in (
            (amount, f"{speed:.1f} times real time", remaining),
            (amount, f"{speed:.1f}x", remaining),
            (amount, remaining),
            (share or amount, remaining),
            (remaining or share or amount,),
        ):
            yield ", ".join(filter(None, parts))

    @property
    def _speed(self) -> float:
        """The speed of recognition; 1 means as fast as the audio was spoken."""
        return self.heard_ms / 1000 / self.elapsed_s if self.elapsed_s > 0 else 0.0


def _join(tally: Tally, text: str) -> str:
    counted = str(tally)
    return f"{counted}{';' if ';' in counted else ','} {text}"
