"""Rescores words with the neural language model, in addition to the n-gram model.

The probability of a word becomes a mixture of both models. The gain of a word is the natural log of its probability in
the mixture, minus that in the n-gram model, which the search has added already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.neural_model import OTHERS, SENTENCE_START, NeuralModel, check_vocabulary


class Context:
    """The words of a sentence so far. The neural model reads them when the first word after them is scored."""

    __slots__ = ("before", "last_two", "memory")

    def __init__(self, before: Context | None, last_two: tuple[int, int]) -> None:
        """`before` is the context without the last word, or None at the start of the sentence."""
        self.before, self.last_two = before, last_two
        self.memory: Tensor | None = None


WordInContext = tuple[Context, int]
"""A word, by its number, and the words before it."""


@dataclass(frozen=True)
class BothScores:
    """ln P of each word in both models. Both are equal for words that neither model has."""

    neural: Tensor
    ngram: Tensor

    def gains(self, share: float) -> list[float]:
        """Return the gains of the words in a mixture in which the neural model has this share."""
        more: list[float] = (self.neural.double() - self.ngram.double()).tolist()
        if share == 1:  # a word with the probability 0 would have no logarithm below
            return more
        # One by one, because the last bit of an exponential in a tensor depends on the place of the number.
        return [math.log1p(share * math.expm1(difference)) for difference in more]


class Rescorer:
    """Scores words with both language models. The bits of a score do not depend on the other words."""

    def __init__(self, neural: NeuralModel, language: LanguageModel) -> None:
        """ValueError if the models do not have the same words and numbers."""
        check_vocabulary(neural, language)
        self._neural, self._language = neural, language
        # The words outside the neural model share the probability of its word 0 in proportion to their unigrams.
        self._shares = torch.zeros_like(language.unigrams)
        others = language.unigrams[neural.size :]
        self._shares[neural.size :] = others - others.logsumexp(0)

    def start(self) -> Context:
        """Return the start of a sentence."""
        return Context(None, self._language.start)

    def after(self, context: Context, word: int) -> Context:
        """Return the context with one more word. A number outside the n-gram model is an unknown word."""
        return Context(context, (context.last_two[1], self._ngram_number(word)))

    @torch.inference_mode()
    def score(self, occurrences: Sequence[WordInContext]) -> BothScores:
        """Return the scores of these words in both models."""
        self._read([context for context, _ in occurrences])
        words = torch.tensor([self._ngram_number(word) for _, word in occurrences])
        ngram = self._language.score(torch.tensor([context.last_two for context, _ in occurrences]), words)
        memories = torch.stack([context.memory for context, _ in occurrences if context.memory is not None])
        neural = self._neural.score(memories, words.to(memories.device)).cpu() + self._shares[words]
        return BothScores(torch.where(words == OTHERS, ngram, neural), ngram)

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
                blank = self._neural.nothing_read
                words = [context.last_two[1] if context.before else SENTENCE_START for context in unread]
                memories = self._neural.read(
                    torch.stack([blank if memory is None else memory for memory in before]),
                    torch.tensor(words, device=blank.device),
                )
                for context, memory in zip(unread, memories, strict=True):
                    # A copy, and no link to the context before, so that no other memory stays alive.
                    context.memory, context.before = memory.clone(), None

    def _ngram_number(self, word: int) -> int:
        return word if word < len(self._language.words) else OTHERS


def _unread(contexts: Sequence[Context]) -> list[Context]:
    return [context for context in dict.fromkeys(contexts) if context.memory is None]
