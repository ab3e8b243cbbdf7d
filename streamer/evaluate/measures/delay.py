"""How long after its end a word was shown, stable and final. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streamer.evaluate.emission import Emission, Moment


class Delay(NamedTuple):
    """Of one word; `at_end`: it was only shown because the audio was over."""

    shown: Moment
    stable: Moment
    final: Moment
    at_end: bool


@dataclass(frozen=True)
class Delays:
    """Of many words: medians and 90th percentiles in milliseconds."""

    words: int
    at_end: int
    shown: tuple[float, float]
    stable: tuple[float, float]
    final: tuple[float, float]


def delay(end_ms: int, emission: Emission, audio_ms: int) -> Delay:
    """Of a word that ends there, in so much audio."""
    moments = (emission.shown, emission.stable, emission.final)
    shown, stable, final = (Moment(moment.audio_ms - end_ms, moment.wall_ms - end_ms) for moment in moments)
    return Delay(shown, stable, final, emission.shown.audio_ms >= audio_ms)


def summary(found: Sequence[Delay], *, wall: bool = False) -> Delays | None:
    """By the audio's clock or the wall's; None of nothing."""
    if not found:
        return None
    return Delays(
        words=len(found),
        at_end=sum(each.at_end for each in found),
        shown=_spread([each.shown[wall] for each in found]),
        stable=_spread([each.stable[wall] for each in found]),
        final=_spread([each.final[wall] for each in found]),
    )


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return float(np.percentile(values, 50)), float(np.percentile(values, 90))
