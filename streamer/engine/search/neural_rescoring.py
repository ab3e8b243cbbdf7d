"""Rescores the hypotheses of a beam with the neural language model at the end of each step and of a segment.

The gain of a hypothesis is the number that the neural model adds to the score of all its words. The gain of words that
ended in a step is added at the end of the step, or of the first later step after which their hypothesis is likely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from streamer.engine.language.language_model import SENTENCE_END
from streamer.engine.language.rescoring import Context, Rescorer, WordInContext
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.word_histories import NO_HISTORY


class RescoredHistory:
    """The words of a hypothesis as the context of the neural model, and their gain."""

    __slots__ = ("before", "context", "gain", "word")

    def __init__(self, context: Context, before: RescoredHistory | None = None, word: int = 0) -> None:
        """`before` is the history without the last word, which has the number `word`, until the word is counted."""
        self.context, self.before, self.word = context, before, word
        self.gain: float = before.gain if before else 0.0

    def count(self, gain: float) -> None:
        """Add the gain of the last word, after those of all words before it."""
        assert self.before
        self.gain, self.before = self.before.gain + gain, None


@dataclass(frozen=True)
class BeamStep:
    """The changes of the beam of a slot in one step."""

    slot: int
    histories: Sequence[int]  # the history that each row continues; NO_HISTORY for a dead row
    hashes: Sequence[int]  # the hash of the history of each row
    masses: Sequence[float]  # the mass of each row, times the look-ahead of its node
    ended: Callable[[int], tuple[int, int]]  # returns the history before an ended word, and the number of the word


class NeuralRescoring:
    """The rescored histories of the rows of every slot."""

    def __init__(self, rescorer: Rescorer, options: BeamOptions, slots: int) -> None:
        self._rescorer, self._options = rescorer, options
        self._rows: list[list[RescoredHistory]] = [[] for _ in range(slots)]

    def reset(self, slot: int) -> None:
        """Begin a new segment in this slot."""
        self._rows[slot] = [RescoredHistory(self._rescorer.start())] * self._options.beam

    def reorder(self, slot: int, rows: Sequence[int]) -> None:
        """Put the rows of this slot into this order."""
        self._rows[slot] = [self._rows[slot][row] for row in rows]

    def gains(self, slot: int) -> list[float]:
        """Return the gain of each row of a slot."""
        return [history.gain for history in self._rows[slot]]

    def follow(self, steps: Sequence[BeamStep]) -> list[int]:
        """Follow a step of the beams of some slots. Return the slots with words that were rescored."""
        new: dict[RescoredHistory, None] = {}  # in the order of their words
        changed = []
        for step in steps:
            before = len(new)
            rows = self._rows[step.slot] = self._histories_after(step)
            least = self._options.rescoring_floor * max(step.masses)
            for history, mass in zip(rows, step.masses, strict=True):
                if history.before and mass >= least and history not in new:
                    new |= dict.fromkeys(reversed(list(_waiting(history))))
            if len(new) > before:
                changed.append(step.slot)
        words = [(history.before.context, history.word) for history in new if history.before]
        for history, gain in zip(new, self._word_gains(words), strict=True):
            history.count(gain)
        return changed

    def last_gains(self, slot: int, words: Sequence[tuple[int, int]]) -> list[float]:
        """Return the gains of running words, each after the history of a row."""
        return self._word_gains([(self._rows[slot][row].context, word) for row, word in words])

    def end_gains(self, slot: int, ways: Sequence[tuple[int, int | None]]) -> list[float]:
        """Return the gains of the end of a sentence after the history of a row, or after one more word."""
        pairs = [(self._rows[slot][row].context, last) for row, last in ways]
        contexts = [context if last is None else self._rescorer.after(context, last) for context, last in pairs]
        ends = [(context, SENTENCE_END) for context in contexts]
        weight = self._options.neural_end_weight
        return [weight * gain for gain in self._rescorer.gains(ends, self._options.neural_share)]

    def _word_gains(self, words: Sequence[WordInContext]) -> list[float]:
        weight = self._options.neural_weight
        return [weight * gain for gain in self._rescorer.gains(words, self._options.neural_share)]

    def _histories_after(self, step: BeamStep) -> list[RescoredHistory]:
        """Return the histories of the rows after a step."""
        before, beam = self._rows[step.slot], self._options.beam
        new: dict[int, RescoredHistory] = {NO_HISTORY: before[0]}

        def history_of(number: int) -> RescoredHistory:
            if 0 <= number < beam:
                return before[number]
            if number not in new:
                earlier, word = step.ended(number - beam)
                previous = history_of(earlier)
                new[number] = RescoredHistory(self._rescorer.after(previous.context, word), previous, word)
            return new[number]

        # Many rows have the same history, and words may have ended in several ways. So histories are shared by hash.
        marks = dict(zip(step.histories, step.hashes, strict=True))
        same = {mark: before[number] for number, mark in marks.items() if 0 <= number < beam}
        by_number: dict[int, RescoredHistory] = {}
        for number, mark in marks.items():
            if mark not in same:
                same[mark] = history_of(number)
            by_number[number] = same[mark]
        return [by_number[number] for number in step.histories]


def _waiting(history: RescoredHistory) -> Iterator[RescoredHistory]:
    """Yield this history and those before it whose last words are not counted yet."""
    while history.before:
        yield history
        history = history.before
