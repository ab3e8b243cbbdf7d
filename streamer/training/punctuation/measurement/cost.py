"""Measures the CPU time of marks: for a call with several streams, and for a second of speech of one stream."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from streamer.engine.punctuation.marks import HeardWord
from streamer.engine.punctuation.punctuation_model import PunctuationModel
from streamer.training.punctuation.measurement.heard_speech import HeardSegment

BATCHES = (1, 8, 32)
_NEW_WORDS = 2  # words that came since the last call
_REPEATED = 40


@dataclass(frozen=True)
class MarkCost:
    """The CPU milliseconds of one call for this many streams, and the share of a core that each of them needs."""

    streams: int
    call_ms: float
    share: float


def mark_costs(model: PunctuationModel, recordings: Sequence[Sequence[HeardSegment]], seconds: float) -> list[MarkCost]:
    """Return the costs for recordings of `seconds` in total. A stream has a call for every partial and every final."""
    calls = sum(len(segment.stable) + 1 for segments in recordings for segment in segments)
    words = [word for segments in recordings for segment in segments for word in segment.heard()]
    length = model.behind + model.ahead + _NEW_WORDS
    windows = [
        [*words[start : start + length - 1], HeardWord("the")] for start in range(0, len(words) - length, length)
    ]
    costs = []
    for streams in BATCHES:
        batch = [windows[place % len(windows)] for place in range(streams)]
        model.read(batch)
        began = time.process_time()
        for _ in range(_REPEATED):
            model.read(batch)
        call_s = (time.process_time() - began) / _REPEATED
        costs.append(MarkCost(streams, 1000 * call_s, call_s / streams * calls / seconds))
    return costs
