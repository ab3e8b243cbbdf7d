"""Rescores words by what the neural language model expects, beside the n-gram model.

The probability of a word becomes a mixture of both models. What counts is how much likelier, in natural logarithms, a
word is under the mixture than under the n-gram model, which the search has counted already.
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
    """The words of a sentence so far. The neural model reads them when a word after them is scored first."""

    __slots__ = ("before", "last_two", "memory")

    def __init__(self, before: Context | None, last_two: tuple[int, int]) -> None:
        """`before` is the context without the last word, or None at the start of the sentence."""
        self.before, self.last_two = before, last_two
        self.memory: Tensor | None = None


SaidWord = tuple[Context, int]
"""A word, by its number, and the words before it."""


@dataclass(frozen=True)
class BothScores:
    """ln P of each word under both models. They are the same for words that neither model knows."""

    neural: Tensor
    ngram: Tensor

    def gains(self, share: float) -> list[float]:
        """How much likelier the words are in a mixture in which the neural model has this share."""
        more: list[float] = (self.neural.double() - self.ngram.double()).tolist()
        if share == 1:  # there is no logarithm of a word that is impossible to the last bit
            return more
        # One by one: exponentials of a tensor depend on where a number is in it, in the last bit.
        return [math.log1p(share * math.expm1(difference)) for difference in more]


class Rescorer:
    """Scores words with both language models. A word gets the same bits in any company."""

    def __init__(self, neural: NeuralModel, language: LanguageModel) -> None:
        """ValueError if the models do not number the same words."""
        check_vocabulary(neural, language)
        self._neural, self._language = neural, language
        # The words that the neural model does not have share the probability of its word 0 by their unigrams.
        self._shares = torch.zeros_like(language.unigrams)
        others = language.unigrams[neural.size :]
        self._shares[neural.size :] = others - others.logsumexp(0)

    def start(self) -> Context:
        """The start of a sentence."""
        return Context(None, self._language.start)

    def after(self, context: Context, word: int) -> Context:
        """The context with one more word. A number that the n-gram model does not have is an unknown word."""
        return Context(context, (context.last_two[1], self._known(word)))

    @torch.inference_mode()
    def score(self, said: Sequence[SaidWord]) -> BothScores:
        """The scores of these words under both models."""
        self._read([context for context, _ in said])
        words = torch.tensor([self._known(word) for _, word in said])
        ngram = self._language.score(torch.tensor([context.last_two for context, _ in said]), words)
        memories = torch.stack([context.memory for context, _ in said if context.memory is not None])
        neural = self._neural.score(memories, words.to(memories.device)).cpu() + self._shares[words]
        return BothScores(torch.where(words == OTHERS, ngram, neural), ngram)

    def gains(self, said: Sequence[SaidWord], share: float) -> list[float]:
        """How much likelier each word is if the neural model has this share of the mixture."""
        return self.score(said).gains(share) if said else []

    def _read(self, contexts: Sequence[Context]) -> None:
        """Let the neural model read these contexts, those before them first."""
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
                    # A copy, and no way back: nothing else is kept alive.
                    context.memory, context.before = memory.clone(), None

    def _known(self, word: int) -> int:
        return word if word < len(self._language.words) else OTHERS


def _unread(contexts: Sequence[Context]) -> list[Context]:
    return [context for context in dict.fromkeys(contexts) if context.memory is None]
