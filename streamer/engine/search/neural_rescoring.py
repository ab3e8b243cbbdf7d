"""Rescores the hypotheses of a beam by the neural language model, where a step ends and where a segment ends.

A hypothesis has a gain: what the neural model adds to the score of all its words. The gain of the words that ended in a
step is counted at the end of the step, or of the first later one after which their hypothesis is not unlikely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from streamer.engine.language.language_model import SENTENCE_END
from streamer.engine.language.rescoring import Context, Rescorer, SaidWord
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.word_histories import NO_HISTORY


class RescoredHistory:
    """The words of a hypothesis as the neural model knows them, and what it adds to their score."""

    __slots__ = ("before", "context", "gain", "word")

    def __init__(self, context: Context, before: RescoredHistory | None = None, word: int = 0) -> None:
        """`before` is the history without the last word, whose number is `word`. It is kept until the word counts."""
        self.context, self.before, self.word = context, before, word
        self.gain: float = before.gain if before else 0.0

    def count(self, gain: float) -> None:
        """Count the gain of the last word, after those of all words before it."""
        assert self.before
        self.gain, self.before = self.before.gain + gain, None


@dataclass(frozen=True)
class BeamStep:
    """What happened in the beam of a slot in one step."""

    slot: int
    histories: Sequence[int]  # which history each row continues, NO_HISTORY for a dead row
    hashes: Sequence[int]  # of the history of each row
    masses: Sequence[float]  # of each row, with the look-ahead to the end of its word
    ended: Callable[[int], tuple[int, int]]  # of each word that ended, the history before it and its number


class NeuralRescoring:
    """Keeps the rescored histories of the rows of every slot."""

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
        """The gain of each row of a slot."""
        return [history.gain for history in self._rows[slot]]

    def follow(self, steps: Sequence[BeamStep]) -> list[int]:
        """Follow a step of the beams of some slots. Returns those with words that were rescored."""
        counted: dict[RescoredHistory, None] = {}  # in the order of their words
        changed = []
        for step in steps:
            known = len(counted)
            rows = self._rows[step.slot] = self._followed(step)
            least = self._options.rescoring_floor * max(step.masses)
            for history, mass in zip(rows, step.masses, strict=True):
                if history.before and mass >= least and history not in counted:
                    counted |= dict.fromkeys(reversed(list(_waiting(history))))
            if len(counted) > known:
                changed.append(step.slot)
        said = [(history.before.context, history.word) for history in counted if history.before]
        for history, gain in zip(counted, self._word_gains(said), strict=True):
            history.count(gain)
        return changed

    def last_gains(self, slot: int, words: Sequence[tuple[int, int]]) -> list[float]:
        """The gains of words that have not ended, each after the history of a row."""
        return self._word_gains([(self._rows[slot][row].context, word) for row, word in words])

    def end_gains(self, slot: int, ways: Sequence[tuple[int, int | None]]) -> list[float]:
        """The gains of the end of the sentence after the history of a row, or after one more word."""
        found = [(self._rows[slot][row].context, last) for row, last in ways]
        contexts = [context if last is None else self._rescorer.after(context, last) for context, last in found]
        said = [(context, SENTENCE_END) for context in contexts]
        weight = self._options.neural_end_weight
        return [weight * gain for gain in self._rescorer.gains(said, self._options.neural_share)]

    def _word_gains(self, said: Sequence[SaidWord]) -> list[float]:
        weight = self._options.neural_weight
        return [weight * gain for gain in self._rescorer.gains(said, self._options.neural_share)]

    def _followed(self, step: BeamStep) -> list[RescoredHistory]:
        """The histories of the rows after a step."""
        before, beam = self._rows[step.slot], self._options.beam
        made: dict[int, RescoredHistory] = {NO_HISTORY: before[0]}

        def history_of(number: int) -> RescoredHistory:
            if 0 <= number < beam:
                return before[number]
            if number not in made:
                earlier, word = step.ended(number - beam)
                former = history_of(earlier)
                made[number] = RescoredHistory(self._rescorer.after(former.context, word), former, word)
            return made[number]

        # By hash, so that words which ended in several ways are read once. Many rows have the same history.
        marks = dict(zip(step.histories, step.hashes, strict=True))
        same = {mark: before[number] for number, mark in marks.items() if 0 <= number < beam}
        found: dict[int, RescoredHistory] = {}
        for number, mark in marks.items():
            if mark not in same:
                same[mark] = history_of(number)
            found[number] = same[mark]
        return [found[number] for number in step.histories]


def _waiting(history: RescoredHistory) -> Iterator[RescoredHistory]:
    """This history and those before it whose last words do not count yet."""
    while history.before:
        yield history
        history = history.before
