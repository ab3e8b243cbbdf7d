"""When the words of a transcript came: first shown and kept, and final. By the audio's clock, and by the wall's. Pure.

The audio's clock is how much audio had been computed when an event was made (`audio_ms`), so it does not depend on
how fast the audio was sent. A word counts as shown from the event on since which it has stood in the same place of its
segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from streamer.evaluate.errors import RIGHT, aligned
from streamer.evaluate.normalise import normalise


class Arrival(NamedTuple):
    """An event, and how many milliseconds after the beginning of the audio it arrived here."""

    wall_ms: float
    event: Mapping[str, Any]


class Moment(NamedTuple):
    """The same moment by two clocks."""

    audio_ms: int
    wall_ms: float


class Emission(NamedTuple):
    """A word of the transcript, normalised."""

    word: str
    shown: Moment
    final: Moment


class Delay(NamedTuple):
    """How long after a word's end it was shown and final; `at_end`: shown only because the audio was over."""

    shown: Moment
    final: Moment
    at_end: bool


@dataclass(frozen=True)
class Delays:
    """Delays of many words: medians and 95th percentiles in milliseconds."""

    words: int
    at_end: int
    shown: tuple[float, float]
    final: tuple[float, float]


def emissions(arrivals: Sequence[Arrival]) -> list[Emission]:
    """The words of all finals, in order."""
    found = []
    shown: dict[int, list[tuple[list[str], Moment]]] = {}
    for (wall_ms, event), audio_ms in zip(arrivals, _clock(arrivals), strict=True):
        moment = Moment(audio_ms, wall_ms)
        if event["type"] == "partial":
            shown.setdefault(event["segment"], []).append((event["text"].split(), moment))
        elif event["type"] == "final":
            earlier = shown.pop(event["segment"], [])
            for place, word in enumerate(event["text"].split()):
                first = _first_shown(place, word, earlier) or moment
                found += [Emission(part, first, moment) for part in normalise(word)]
    return found


def delays(reference: Sequence[str], ends_ms: Sequence[int], emitted: Sequence[Emission], audio_ms: int) -> list[Delay]:
    """The delays of those words that were understood rightly, against where an alignment has them end."""
    found = []
    for pair in aligned(reference, [emission.word for emission in emitted]):
        if pair.kind == RIGHT and pair.reference is not None and pair.hypothesis is not None:
            end, emission = ends_ms[pair.reference], emitted[pair.hypothesis]
            at_end = emission.shown.audio_ms >= audio_ms
            found.append(Delay(_since(end, emission.shown), _since(end, emission.final), at_end))
    return found


def summary(found: Sequence[Delay], *, wall: bool = False) -> Delays | None:
    """Medians and 95th percentiles, by the audio's clock or the wall's; None of nothing."""
    if not found:
        return None
    return Delays(
        words=len(found),
        at_end=sum(delay.at_end for delay in found),
        shown=_spread([delay.shown[wall] for delay in found]),
        final=_spread([delay.final[wall] for delay in found]),
    )


def _clock(arrivals: Sequence[Arrival]) -> list[int]:
    """The audio's clock at each event; one without it has that of the next one with it, which is no earlier."""
    clock = []
    later = next((arrival.event["audio_ms"] for arrival in reversed(arrivals) if "audio_ms" in arrival.event), 0)
    for arrival in reversed(arrivals):
        later = arrival.event.get("audio_ms", later)
        clock.append(later)
    return clock[::-1]


def _first_shown(place: int, word: str, shown: Sequence[tuple[list[str], Moment]]) -> Moment | None:
    first = None
    for words, moment in reversed(shown):
        if words[place : place + 1] != [word]:
            break
        first = moment
    return first


def _since(end_ms: int, moment: Moment) -> Moment:
    return Moment(moment.audio_ms - end_ms, moment.wall_ms - end_ms)


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return float(np.percentile(values, 50)), float(np.percentile(values, 95))
