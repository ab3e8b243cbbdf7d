"""The greedy search. It takes the likeliest unit of every frame, without a lexicon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamer.engine.acoustics.streaming_model import Emissions
from streamer.engine.search.search import BLANK, Hotword, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.waiting import Work

SPACE = " "


@dataclass
class _GreedyPath:
    """The best path of one slot with merged repetitions: the whole words, and the letters of the running word."""

    frame: int = 0
    previous: int = BLANK
    words: list[HypothesisWord] = field(default_factory=list)
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

    def running_word(self) -> HypothesisWord | None:
        if not self.letters:
            return None
        confidence = math.exp(sum(self.log_probs) / len(self.log_probs))
        return HypothesisWord("".join(self.letters), self.start, self.end, confidence)


class GreedySearch:
    """A Search that takes the best unit of every frame. The units are letters and the space."""

    def __init__(self, units: Sequence[str], slots: int, head: str = "characters") -> None:
        if SPACE not in units:
            raise ValueError(f"the head {head!r} has no unit for the space between words")
        self._units = list(units)
        self._head = head
        self._paths = [_GreedyPath() for _ in range(slots)]

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Refuse hotwords, because this search only writes letters. All its whole words are settled."""
        yield from ()
        if hotwords:
            raise ValueError("the greedy search does not support hotwords")

    def release(self, slot: int) -> None:
        """Do nothing, because `prepare` takes nothing."""

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        for slot in slots:
            self._paths[slot] = _GreedyPath()

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Read the next frames of these slots and return their hypotheses, in the same order."""
        scores = emissions[self._head]
        batch, frames, _ = scores.shape
        rows = scores.reshape(batch * frames, -1)
        best = rows.argmax(-1)
        # Only two transfers for the whole batch. This code works with arrays of torch and of numpy.
        log_probs = rows[list(range(batch * frames)), best].reshape(batch, frames).tolist()
        units = best.reshape(batch, frames).tolist()
        for row, slot in enumerate(slots):
            path = self._paths[slot]
            for unit, log_prob in zip(units[row], log_probs[row], strict=True):
                path.read(unit, log_prob, self._units)
        return self.finish(slots)

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """Return the hypotheses of these slots if the segment ended here, in the same order. Change no state."""
        hypotheses = []
        for slot in slots:
            path = self._paths[slot]
            running = path.running_word()
            words = (*path.words, running) if running else tuple(path.words)
            # A greedy path only grows at its end: whole words stay, and the running word may get more letters.
            hypotheses.append(Hypothesis(words, stable=len(path.words)))
        return hypotheses

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Return the only path, with the probability 1."""
        return [(self.finish([slot])[0].words, 1.0)][:number]
