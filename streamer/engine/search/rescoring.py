"""Rescores the hypotheses of a beam with the neural language model at the end of each step and of a segment.

The gain of a hypothesis is the number that the neural model adds to the score of all its words. The gain of words that
ended in a step is added at the end of the step, or of the first later step after which their hypothesis is likely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamer.engine.language.language_model import SENTENCE_END, LanguageModel
from streamer.engine.language.neural_model import OTHERS, SENTENCE_START, Memory, SentenceModel, check_vocabulary
from streamer.engine.search.beams import NO_HISTORY
from streamer.engine.search.search import BeamOptions


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


# Rescores words with the neural language model, in addition to the n-gram model.


class Context:
    """The words of a sentence so far. The neural model reads them when the first word after them is scored."""

    __slots__ = ("before", "last_two", "memory")

    def __init__(self, before: Context | None, last_two: tuple[int, int]) -> None:
        """`before` is the context without the last word, or None at the start of the sentence."""
        self.before, self.last_two = before, last_two
        self.memory: Memory | None = None


WordInContext = tuple[Context, int]
"""A word, by its number, and the words before it."""


@dataclass(frozen=True)
class BothScores:
    """ln P of each word in both models. Both are equal for words that neither model has."""

    neural: NDArray[np.float32]
    ngram: NDArray[np.float32]

    def gains(self, share: float) -> list[float]:
        """Return the gains of the words in a mixture in which the neural model has this share."""
        more: list[float] = (self.neural.astype(np.float64) - self.ngram).tolist()
        if share == 1:  # a word with the probability 0 would have no logarithm below
            return more
        # One by one, because the last bit of an exponential in an array may depend on the place of the number.
        return [math.log1p(share * math.expm1(difference)) for difference in more]


class Rescorer:
    """Scores words with both language models. The bits of a score do not depend on the other words."""

    def __init__(self, neural: SentenceModel, language: LanguageModel) -> None:
        """ValueError if the models do not have the same words and numbers."""
        check_vocabulary(neural, language)
        self._neural, self._language = neural, language
        # The words outside the neural model share the probability of its word 0 in proportion to their unigrams.
        self._shares = np.zeros_like(language.unigrams)
        others = language.unigrams[neural.size :]
        self._shares[neural.size :] = others - np.logaddexp.reduce(others.astype(np.float64), initial=-np.inf)

    def start(self) -> Context:
        """Return the start of a sentence."""
        return Context(None, self._language.start)

    def after(self, context: Context, word: int) -> Context:
        """Return the context with one more word. A number outside the n-gram model is an unknown word."""
        return Context(context, (context.last_two[1], self._ngram_number(word)))

    def score(self, occurrences: Sequence[WordInContext]) -> BothScores:
        """Return the scores of these words in both models."""
        self._read([context for context, _ in occurrences])
        words = [self._ngram_number(word) for _, word in occurrences]
        ngram = self._language.score([context.last_two for context, _ in occurrences], words)
        neural = self._neural.score([context.memory for context, _ in occurrences], words) + self._shares[words]
        return BothScores(np.where(np.equal(words, OTHERS), ngram, neural), ngram)

    def gains(self, occurrences: Sequence[WordInContext], share: float) -> list[float]:
        """Return the gain of each word if the neural model has this share of the mixture."""
        return self.score(occurrences).gains(share) if occurrences else []

    def _read(self, contexts: Sequence[Context]) -> None:
        """Let the neural model read these contexts, after the contexts before them."""
        levels = [_unread(contexts)]
        while levels[-1]:
            levels.append(_unread([context.before for context in levels[-1] if context.before]))
        for level in reversed(levels):
            if unread := _unread(level):
                before = [context.before.memory if context.before else None for context in unread]
                words = [context.last_two[1] if context.before else SENTENCE_START for context in unread]
                for context, memory in zip(unread, self._neural.read(before, words), strict=True):
                    context.memory, context.before = memory, None  # no link, so that no other memory stays alive

    def _ngram_number(self, word: int) -> int:
        return word if word < len(self._language.words) else OTHERS


def _unread(contexts: Sequence[Context]) -> list[Context]:
    return [context for context in dict.fromkeys(contexts) if context.memory is None]
