"""Compares the alternatives of a segment by what the neural language model expects, beside the n-gram model.

The probability of a word becomes a mixture of both models. What counts is how much likelier, in natural logarithms,
each alternative is under the mixture than under the n-gram model, which the search has counted already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from streamer.engine.language.language_model import SENTENCE_END, LanguageModel
from streamer.engine.language.neural_model import OTHERS, NeuralModel, check_vocabulary


@dataclass(frozen=True)
class BothScores:
    """ln P of each word of an alternative and of the end of the sentence, under both models.

    They are the same for words that neither model knows.
    """

    neural: Tensor
    ngram: Tensor

    def gain(self, share: float, weight: float, end_weight: float) -> float:
        """How much better the alternative is if the neural model has this share of the mixture."""
        if share >= 1:
            gains = self.neural - self.ngram
        else:
            gains = torch.logaddexp(self.neural + math.log(share), self.ngram + math.log1p(-share)) - self.ngram
        return weight * float(gains[:-1].sum()) + end_weight * float(gains[-1])


class Rescorer:
    """Scores alternatives with both language models."""

    def __init__(self, neural: NeuralModel, language: LanguageModel) -> None:
        """ValueError if the models do not number the same words."""
        check_vocabulary(neural, language)
        self._neural, self._language = neural, language
        self._numbers = {word: number for number, word in enumerate(language.words)}
        # The words that the neural model does not have share the probability of its word 0 by their unigrams.
        self._shares = torch.zeros(len(language.words))
        others = language.unigrams[neural.size :].cpu()
        self._shares[neural.size :] = others - others.logsumexp(0)

    @torch.inference_mode()
    def compare(self, begun: Sequence[str], ways: Sequence[Sequence[str]]) -> list[BothScores]:
        """The scores of each way to go on, where all sentences begin with the same words."""
        before = [self._numbers.get(text, OTHERS) for text in begun]
        numbered = [[self._numbers.get(text, OTHERS) for text in way] for way in ways]
        neural = torch.cat(self._neural.score(before, numbered))
        contexts, said = [], []
        for way in numbered:
            history = [*self._language.start, *before, *way, SENTENCE_END]
            for place in range(2 + len(before), len(history)):
                contexts.append(history[place - 2 : place])
                said.append(history[place])
        device, words = self._language.unigrams.device, torch.tensor(said)
        ngram = self._language.score(torch.tensor(contexts, device=device), words.to(device)).cpu()
        neural = torch.where(words == OTHERS, ngram, neural + self._shares[words])
        lengths = [len(way) + 1 for way in numbered]
        return [BothScores(*both) for both in zip(neural.split(lengths), ngram.split(lengths), strict=True)]
