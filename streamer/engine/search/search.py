"""The interface between the recogniser and its searches, and the types that pass through it.

A search turns emissions (log-probabilities per frame) into words. Two implement this interface: `BeamSearch` and
`GreedySearch`.
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
    confidence: float  # geometric mean of the posteriors of its phones
    share: float = 1.0  # the part of the search's probability that has this word at about this time; set by `finish`


@dataclass(frozen=True)
class Hotword:
    """A word or phrase that a stream expects. Weight 1 is the tuned default, weight 0 has no effect.

    A client sends it as `streamer.wire.options.Hotword`. `written` stands for it in results if it is not the same.
    """

    text: str
    weight: float = HOTWORD_WEIGHT
    written: str = ""


@dataclass(frozen=True)
class Hypothesis:
    """The best words of a segment so far. The first `stable` of them will not change.

    `running` is set while a word has begun but cannot be named yet: its first frame, and the frame after its last.
    """

    words: tuple[HypothesisWord, ...]
    stable: int
    running: tuple[int, int] | None = None


NO_WORDS = Hypothesis((), 0)

LikelyWords = tuple[tuple[HypothesisWord, ...], float]
"""The words of a hypothesis, and their probability among all hypotheses of the search."""


class Search(Protocol):
    """Keeps the hypotheses of every slot and advances those of a batch together."""

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Set the options of the stream that takes this slot. Finished before `reset`; valid until `release`.

        Words that ended `settle_frames` frames ago no longer change; 0 means that age settles nothing. Other slots may
        advance between the parts of the work. It raises ValueError for a hotword that cannot be used, and NotNow if
        there is no room for it.
        """

    def release(self, slot: int) -> None:
        """Free what `prepare` has set up: the stream in this slot has ended, or its preparation was cancelled."""

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """The hypotheses of these slots if the segment ended here, in the same order. Changes no state."""

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Up to `number` different texts of a slot if the segment ended here, likeliest first.

        The first one is the text that `finish` returns.
        """
