"""From emissions to words: what a search is to the recogniser, and the greedy one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from streamer.engine.models.streaming_model import Emissions
from streamer.limits import HOTWORD_WEIGHT

BLANK = 0
SPACE = " "


@dataclass(frozen=True)
class Word:
    """A word and the emission frames of its segment that it covers (`end` is exclusive)."""

    text: str
    start: int
    end: int
    confidence: float  # geometric mean of its phones' posteriors
    share: float = 1.0  # of all that a search held possible, the part that has this word about here; filled by `finish`


@dataclass(frozen=True)
class Hotword:
    """A word or phrase that a stream expects; weight 1 is the tuned default, 0 changes nothing."""

    text: str
    weight: float = HOTWORD_WEIGHT


@dataclass(frozen=True)
class Hypothesis:
    """The best words of a segment so far; the first `stable` of them, and what is shown of them, will not change.

    `running` are the first frame, and the one behind the last, of a word that is being heard and is none yet.
    """

    words: tuple[Word, ...]
    stable: int
    running: tuple[int, int] | None = None


Alternative = tuple[tuple[Word, ...], float]
"""Words, and their probability among all that a search holds possible."""


class Search(Protocol):
    """Keeps a hypothesis for every slot and advances those of a batch together."""

    def configure(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int) -> None:
        """What the stream that takes this slot asks for, until the next one does; called before `reset`.

        Words that ended so many frames ago are settled, 0: never by age. ValueError says which hotword is impossible.
        """

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """The hypotheses of these slots if nothing follows, in the same order; changes nothing."""

    def alternatives(self, slot: int, number: int) -> list[Alternative]:
        """At most so many different texts of a slot if nothing follows, the likeliest, that of `finish`, first."""


@dataclass
class _GreedyPath:
    """The collapsed best path of one slot: finished words and the letters of the running one."""

    frame: int = 0
    previous: int = BLANK
    words: list[Word] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def read(self, unit: int, log_prob: float, units: Sequence[str]) -> None:
        if unit not in (BLANK, self.previous):
            if units[unit] == SPACE:
                self.finish_word()
            else:
                if not self.letters:
                    self.start = self.frame
                self.letters.append(units[unit])
                self.log_probs.append(log_prob)
        if self.letters and unit != BLANK:
            self.end = self.frame + 1
        self.previous = unit
        self.frame += 1

    def finish_word(self) -> None:
        word = self.running_word()
        if word:
            self.words.append(word)
        self.letters, self.log_probs = [], []

    def running_word(self) -> Word | None:
        if not self.letters:
            return None
        confidence = math.exp(sum(self.log_probs) / len(self.log_probs))
        return Word("".join(self.letters), self.start, self.end, confidence)


class GreedySearch:
    """The best unit of every frame, collapsed: letters and spaces of a CTC head make the words, no lexicon."""

    def __init__(self, units: Sequence[str], slots: int, head: str = "characters") -> None:
        if SPACE not in units:
            raise ValueError(f"the head {head!r} has no unit for the space between words")
        self._units = list(units)
        self._head = head
        self._paths = [_GreedyPath() for _ in range(slots)]

    def configure(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int) -> None:
        """Refuses hotwords: letters as they are heard can't be made others. All it shows is settled at once."""
        if hotwords:
            raise ValueError("the greedy search knows no hotwords")

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        for slot in slots:
            self._paths[slot] = _GreedyPath()

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""
        best = torch.max(emissions[self._head], dim=-1)
        log_probs, units = best.values.tolist(), best.indices.tolist()  # one transfer for the whole batch
        for row, slot in enumerate(slots):
            path = self._paths[slot]
            for unit, log_prob in zip(units[row], log_probs[row], strict=True):
                path.read(unit, log_prob, self._units)
        return self.finish(slots)

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """The hypotheses of these slots if nothing follows, in the same order; changes nothing."""
        hypotheses = []
        for slot in slots:
            path = self._paths[slot]
            running = path.running_word()
            words = (*path.words, running) if running else tuple(path.words)
            # A greedy path only grows at its end: whole words stay, the running one gets more letters.
            hypotheses.append(Hypothesis(words, stable=len(path.words)))
        return hypotheses

    def alternatives(self, slot: int, number: int) -> list[Alternative]:
        """The one path that there is."""
        return [(self.finish([slot])[0].words, 1.0)][:number]
