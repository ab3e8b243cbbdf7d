"""The interface between the recogniser and its searches, and its types.

A search turns emissions (log-probabilities per frame) into words. For the shipped model, there are `BeamSearch` and
`GreedySearch`; public models have others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from streamer.engine.models.streaming_model import Emissions
from streamer.engine.work.parts import Work
from streamer.limits import HOTWORD_WEIGHT

BLANK = 0


@dataclass(frozen=True)
class HypothesisWord:
    """A word of a hypothesis, and the emission frames of its segment that it covers (`end` is exclusive)."""

    text: str
    start: int
    end: int
    confidence: float  # the geometric mean of the posteriors of its phones
    share: float = 1.0  # the probability of all hypotheses with this word at about this time; `finish` sets it


@dataclass(frozen=True)
class Hotword:
    """A word or phrase that a stream expects. Weight 1 is the default, and weight 0 has no effect.

    A client sends it as `streamer.wire.options.Hotword`. `written` replaces it in results, if it is not empty.
    """

    text: str
    weight: float = HOTWORD_WEIGHT
    written: str = ""


@dataclass(frozen=True)
class Hypothesis:
    """The best words of a segment so far. The first `stable` of them will not change.

    `running` has the first frame, and the frame after the last one, of a word that has begun but is not known yet.
    """

    words: tuple[HypothesisWord, ...]
    stable: int
    running: tuple[int, int] | None = None


NO_WORDS = Hypothesis((), 0)

LikelyWords = tuple[tuple[HypothesisWord, ...], float]
"""The words of a hypothesis, and their probability among all hypotheses of the search."""


class Search(Protocol):
    """Keeps the hypotheses of every slot, and advances those of a batch together."""

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Prepare this slot for its next stream. The work must be finished before `reset`.

        Words that ended `settle_frames` frames ago no longer change; 0 means that words are not settled by their age.
        Other slots may advance between the parts of the work. ValueError for a hotword that cannot be used, and NotNow
        if there is no room for it now.
        """

    def release(self, slot: int) -> None:
        """Free what `prepare` took, because the stream in this slot has ended, or its preparation was cancelled."""

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """Return the hypotheses of these slots if the segment ended here, in the same order. Change no state."""

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Return up to `number` different texts of a slot if the segment ended here, likeliest first.

        The first one is the text that `finish` returns.
        """
