"""Measures how long after its end a word was shown, stable and final. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streamer.evaluate.word_timing import TimedWord, TimePoint


class WordDelay(NamedTuple):
    """The delays of one word. `at_end`: it was shown only because the audio was over."""

    shown: TimePoint
    stable: TimePoint
    final: TimePoint
    at_end: bool


@dataclass(frozen=True)
class DelaySummary:
    """The delays of many words: medians and 90th percentiles in milliseconds."""

    words: int
    at_end: int
    shown: tuple[float, float]
    stable: tuple[float, float]
    final: tuple[float, float]


def word_delay(end_ms: int, word: TimedWord, audio_ms: int) -> WordDelay:
    """Return the delays of a word that ends at `end_ms`, in a recording of `audio_ms`."""
    times = (word.shown, word.stable, word.final)
    shown, stable, final = (TimePoint(time.audio_ms - end_ms, time.wall_ms - end_ms) for time in times)
    return WordDelay(shown, stable, final, word.shown.audio_ms >= audio_ms)


def summarise_delays(delays: Sequence[WordDelay], *, wall: bool = False) -> DelaySummary | None:
    """Return the summary by the audio clock or the wall clock, None if there are no delays."""
    if not delays:
        return None
    return DelaySummary(
        words=len(delays),
        at_end=sum(each.at_end for each in delays),
        shown=_spread([each.shown[wall] for each in delays]),
        stable=_spread([each.stable[wall] for each in delays]),
        final=_spread([each.final[wall] for each in delays]),
    )


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return float(np.percentile(values, 50)), float(np.percentile(values, 90))
