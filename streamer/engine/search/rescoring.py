"""Rescores the hypotheses of a beam with the neural language model at the end of each step and of a segment.

The gain of a hypothesis is the number that the neural model adds to the score of all its words. The gain of words that
ended in a step is added at the end of the step, or of the first later step after which their hypothesis is likely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from streamer.engine.language.language_model import SENTENCE_END, LanguageModel
from streamer.engine.language.neural_model import OTHERS, SENTENCE_START, Memory, SentenceModel, check_vocabulary
from streamer.engine.search.beams import ENDED_WORD, Beams, Histories, StepRecords, grown_by_row
from streamer.engine.search.rescoring_loops import NO_CONTEXT, PAST, PastArrays, follow_pasts, rescore
from streamer.engine.search.search import BeamOptions


class NeuralRescoring:
    """The pasts of the rows of every slot, and the contexts of those whose words were scored.

    While one thread computes steps of some slots, another one may reset others, or score the ends of their segments.
    """

    def __init__(self, rescorer: Rescorer, options: BeamOptions, slots: int) -> None:
        self._rescorer, self._options = rescorer, options
        self.arrays = PastArrays(
            np.zeros((slots, 1), PAST), np.ones(slots, np.int64), np.zeros((slots, options.beam), np.int32)
        )
        start = rescorer.start()
        rescorer.gains([(start, SENTENCE_END)], options.neural_share)  # all slots share it, so it is read once
        self._contexts: list[Context | None] = [start]
        self._free: list[int] = []
        self._growing = Lock()  # what is written while arrays are copied would be lost
        run_loops_once(options.beam)

    def reset(self, slot: int) -> None:
        """Begin a new segment in this slot."""
        contexts = self.arrays.pasts["context"][slot, : self.arrays.used[slot]]
        self._forget(contexts[contexts > 0])
        with self._growing:
            arrays = self.arrays
            arrays.pasts[slot, 0] = np.zeros((), PAST)
            arrays.used[slot], arrays.rows[slot] = 1, 0

    def reserve(self, slots: Sequence[int], more: int) -> None:
        """Make room for this many more pasts in each of these slots. No other thread may compute steps meanwhile."""
        with self._growing:
            needed = int(self.arrays.used[list(slots)].max()) + more
            if needed > self.arrays.pasts.shape[1]:
                pasts = grown_by_row(self.arrays.pasts, 2 * needed, self.arrays.used)
                self.arrays = self.arrays._replace(pasts=pasts)

    def follow(
        self, step: StepRecords, beams: Beams, histories: Histories, ahead: NDArray[np.float32]
    ) -> NDArray[np.int32]:
        """Follow a step of some slots, and rescore their rows. Return the pasts that got their gains: slot and place.

        `ahead` has the look-ahead of each node.
        """
        slots, hypotheses, floor = step.slots, beams.hypotheses, self._options.rescoring_floor
        chosen = follow_pasts(self.arrays, slots, hypotheses, step.records, step.counts, ahead, floor)
        gains = self._gains_of(chosen)
        freed = rescore(self.arrays, histories.arrays, slots, hypotheses, beams.scale, ahead, chosen, gains)
        self._forget(freed)
        return chosen

    def last_gains(self, slot: int, words: Sequence[tuple[int, int]]) -> list[float]:
        """Return the gains of running words, each after the history of a row."""
        return self._word_gains([(self._context_of_row(slot, row), word) for row, word in words])

    def end_gains(self, slot: int, ways: Sequence[tuple[int, int | None]]) -> list[float]:
        """Return the gains of the end of a sentence after the history of a row, or after one more word."""
        pairs = [(self._context_of_row(slot, row), last) for row, last in ways]
        contexts = [context if last is None else self._rescorer.after(context, last) for context, last in pairs]
        ends = [(context, SENTENCE_END) for context in contexts]
        weight = self._options.neural_end_weight
        return [weight * gain for gain in self._rescorer.gains(ends, self._options.neural_share)]

    def _gains_of(self, chosen: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the gains of the last words of these pasts."""
        if not len(chosen):
            return np.zeros(0)
        pasts, slots = self.arrays.pasts, chosen[:, 0]
        ended = pasts[slots, chosen[:, 1]]
        before = ended["before"]
        numbers = pasts["context"][slots, before].tolist()
        words: list[WordInContext] = []
        for place, (number, word) in enumerate(zip(numbers, ended["word"].tolist(), strict=True)):
            context = self._contexts[number] if number != NO_CONTEXT else None
            if context is None:
                context = self._context(int(slots[place]), int(before[place]))
            words.append((context, word))
        return np.array(self._word_gains(words))

    def _word_gains(self, words: Sequence[WordInContext]) -> list[float]:
        weight = self._options.neural_weight
        return [weight * gain for gain in self._rescorer.gains(words, self._options.neural_share)]

    def _context_of_row(self, slot: int, row: int) -> Context:
        return self._context(slot, int(self.arrays.rows[slot, row]))

    def _context(self, slot: int, place: int) -> Context:
        """Return the context of a past. It is made when it is needed first, and most pasts never need one."""
        past = self.arrays.pasts[slot, place]
        context = self._contexts[past["context"]] if past["context"] != NO_CONTEXT else None
        if context is None:
            context = self._rescorer.after(self._context(slot, int(past["before"])), int(past["word"]))
            with self._growing:
                number = self._free.pop() if self._free else len(self._contexts)
                if number == len(self._contexts):
                    self._contexts.append(None)
                self._contexts[number] = context
                self.arrays.pasts[slot, place]["context"] = number
        return context

    def _forget(self, numbers: NDArray[np.int32]) -> None:
        if not len(numbers):
            return
        with self._growing:
            for number in numbers.tolist():
                self._contexts[number] = None
                self._free.append(number)


def run_loops_once(beam: int) -> None:
    """Run the loops, so that they are compiled, or read from disk, before a client waits for words."""
    pasts = PastArrays(np.zeros((1, 1), PAST), np.ones(1, np.int64), np.zeros((1, beam), np.int32))
    beams, histories = Beams(1, beam, (0, 0)), Histories(1, beam)
    step = StepRecords(np.zeros(0, np.int64), np.empty((0, 1), ENDED_WORD), np.zeros(0, np.int64))
    ahead = np.ones(1, np.float32)
    chosen = follow_pasts(pasts, step.slots, beams.hypotheses, step.records, step.counts, ahead, 0.0)
    rescore(pasts, histories.arrays, step.slots, beams.hypotheses, beams.scale, ahead, chosen, np.zeros(0))


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
        self._neural, self._language, self._words = neural, language, len(language.words)
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
        return word if word < self._words else OTHERS


def _unread(contexts: Sequence[Context]) -> list[Context]:
    return [context for context in dict.fromkeys(contexts) if context.memory is None]
