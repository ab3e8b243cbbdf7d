"""The progress of recordings as text: how much was recognised, how fast, and how long it still takes. Pure.

A text that does not fit is replaced by a shorter one. The time that is left is the last thing to be dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streamer.terminal.text_width import beginning, columns, first_that_fits
from streamer.text.counts import part_of
from streamer.transcript import short_timestamp

# A name is cut to this many columns before the rest is shortened.
_NAME_COLUMNS: Final = 16


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
            if name_room >= min(_NAME_COLUMNS, columns(name)):
                return f"{beginning(name, name_room)}  {text}"
        return first_that_fits(self._choices(), room)

    def of_all(self, tally: Tally, room: int) -> str:
        """Return: 3 of 8 recordings, 1:02 of 10:00 (10 %), 12.4 times real time, 0:43 left. Or the part that fits."""
        choices = [_join(tally, text) for text in self._choices()]
        return first_that_fits([*choices, *self._choices()], room)

    def at_the_end(self, tally: Tally) -> str:
        """Return the line that stays at the end."""
        took = f"{_clock(self.heard_ms)} in {short_timestamp(round(self.elapsed_s * 1000))}"
        return _join(tally, f"{took}, {self._speed:.1f} times real time")

    def _choices(self) -> Iterator[str]:
        """Yield the progress in shorter and shorter forms."""
        amount, speed, remaining, share = _clock(self.heard_ms), self._speed, "", ""
        if self.whole_ms:
            percent = f"{min(100, self.heard_ms * 100 // self.whole_ms)} %"
            amount += f" of {'about ' if self.estimated else ''}{_clock(self.whole_ms)} ({percent})"
            remaining = f"{_clock(max(0, round((self.whole_ms - self.heard_ms) / speed)))} left" if speed else ""
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


def _clock(milliseconds: int) -> str:
    """Return a time without tenths of a second, which would change too fast to be read."""
    return short_timestamp(milliseconds)[:-2]
