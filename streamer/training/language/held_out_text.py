"""The text for weighting and for evaluating models. Each uses one half, and every corpus counts the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamer.training.language.mixture import weigh
from streamer.training.language.ngram_counts import END_ID, START_ID, Floats
from streamer.training.language.text_sources import Ids, Reference


@dataclass(frozen=True)
class HeldOutText:
    """Sentences as rows of two words of context and a word, with the corpus and the half of each row."""

    corpora: list[str]
    tokens: Ids
    corpus: Ids
    tuned: Ids  # 1 in the half for finding the weights

    @classmethod
    def number(cls, references: list[Reference], vocabulary: list[str]) -> HeldOutText:
        """Return the references as numbers of the vocabulary."""
        numbers = {word: number for number, word in enumerate(vocabulary)}
        corpora = sorted({reference.corpus for reference in references})
        rows = []
        for index, reference in enumerate(references):
            ids = [START_ID, START_ID, *(numbers.get(word, 0) for word in reference.words), END_ID]
            label = corpora.index(reference.corpus), 1 - index % 2
            rows += [(*triple, *label) for triple in zip(ids, ids[1:], ids[2:], strict=False)]
        table = np.array(rows, dtype=np.int32)
        return cls(corpora, table[:, :3], table[:, 3], table[:, 4])

    @property
    def known(self) -> Ids:
        """The rows whose word is in the vocabulary, as 1 for each."""
        return np.asarray(self.tokens[:, 2] != 0, dtype=np.int32)

    def weigh(self, probabilities: Floats) -> Floats:
        """Return the weights of models, from their probabilities of all rows. Only the half for weights is used."""
        rows = (self.tuned & self.known).astype(bool)
        shares = np.bincount(self.corpus[rows], minlength=len(self.corpora))
        return weigh(probabilities[rows], 1 / shares[self.corpus[rows]])

    def perplexities(self, title: str, probabilities: Floats) -> str:
        """Return a line with two perplexities of every corpus: of the half for evaluation, and of both halves."""
        parts = []
        for number, corpus in enumerate(self.corpora):
            rows = (self.corpus == number) & (self.known == 1)
            other, every = perplexity(probabilities[rows & (self.tuned == 0)]), perplexity(probabilities[rows])
            parts.append(f"{corpus} {other:.1f} ({every:.1f})")
        return f"perplexity, {title}, other half (all): {', '.join(parts)}"


def perplexity(probabilities: Floats) -> float:
    """Return the inverse of the geometric mean of the probabilities; not a number if there are none."""
    return float(np.exp(-np.log(probabilities).mean())) if len(probabilities) else float("nan")
