"""Rescores the hypotheses of a beam by the neural language model, where a step ends and where a segment ends.

A hypothesis has a gain: what the neural model adds to the score of all its words. The gain of the words that ended in a
step is counted at the end of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamer.engine.language.language_model import SENTENCE_END
from streamer.engine.language.rescoring import Context, Rescorer, SaidWord
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.word_histories import NO_HISTORY


@dataclass(eq=False)
class RescoredHistory:
    """The words of a hypothesis as the neural model knows them, and what it adds to their score."""

    context: Context
    gain: float


@dataclass(frozen=True)
class BeamStep:
    """What happened in the beam of a slot in one step."""

    slot: int
    histories: Sequence[int]  # which history each row continues, NO_HISTORY for a dead row
    hashes: Sequence[int]  # of the history of each row
    ended: Callable[[int], tuple[int, int]]  # of each word that ended, the history before it and its number


class NeuralRescoring:
    """Keeps the rescored histories of the rows of every slot."""

    def __init__(self, rescorer: Rescorer, options: BeamOptions, slots: int) -> None:
        self._rescorer, self._options = rescorer, options
        self._rows: list[list[RescoredHistory]] = [[] for _ in range(slots)]

    def reset(self, slot: int) -> None:
        """Begin a new segment in this slot."""
        self._rows[slot] = [RescoredHistory(self._rescorer.start(), 0.0)] * self._options.beam

    def reorder(self, slot: int, rows: Sequence[int]) -> None:
        """Put the rows of this slot into this order."""
        self._rows[slot] = [self._rows[slot][row] for row in rows]

    def gains(self, slot: int) -> list[float]:
        """The gain of each row of a slot."""
        return [history.gain for history in self._rows[slot]]

    def follow(self, steps: Sequence[BeamStep]) -> list[int]:
        """Follow a step of the beams of some slots. Returns the numbers of those whose hypotheses have new words."""
        said: list[SaidWord] = []
        grown: list[tuple[RescoredHistory, RescoredHistory]] = []
        changed = []
        for number, step in enumerate(steps):
            known = len(said)
            self._rows[step.slot] = self._followed(step, said, grown)
            if len(said) > known:
                changed.append(number)
        for (history, before), gain in zip(grown, self._word_gains(said), strict=True):
            history.gain = before.gain + gain
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

    def _followed(
        self, step: BeamStep, said: list[SaidWord], grown: list[tuple[RescoredHistory, RescoredHistory]]
    ) -> list[RescoredHistory]:
        """The histories of the rows after a step. What is new is added to `said` and `grown`, in the order of words."""
        before, beam = self._rows[step.slot], self._options.beam
        made: dict[int, RescoredHistory] = {NO_HISTORY: before[0]}

        def history_of(number: int) -> RescoredHistory:
            if 0 <= number < beam:
                return before[number]
            if number not in made:
                earlier, word = step.ended(number - beam)
                former = history_of(earlier)
                made[number] = RescoredHistory(self._rescorer.after(former.context, word), 0.0)
                said.append((former.context, word))
                grown.append((made[number], former))
            return made[number]

        # By hash, so that words which ended in several ways are read once.
        same = {mark: before[row] for row, mark in zip(step.histories, step.hashes, strict=True) if 0 <= row < beam}
        found = []
        for number, mark in zip(step.histories, step.hashes, strict=True):
            if mark not in same:
                same[mark] = history_of(number)
            found.append(same[mark])
        return found
