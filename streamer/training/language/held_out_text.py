"""The text for weighting and evaluating models: one half for each, and every corpus counts the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamer.training.language.mixture import weigh
from streamer.training.language.ngram_counts import END_ID, START_ID, Floats
from streamer.training.language.text_sources import Ids, Reference


@dataclass(frozen=True)
class HeldOutText:
    """Sentences as rows of two words of context and a word, and of which corpus and half each row is."""

    corpora: list[str]
    tokens: Ids
    corpus: Ids
    tuned: Ids  # 1 in the half that the weights are found on

    @classmethod
    def number(cls, references: list[Reference], vocabulary: list[str]) -> HeldOutText:
        """The references in the vocabulary's numbers."""
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
        """1 where the word is in the vocabulary."""
        return np.asarray(self.tokens[:, 2] != 0, dtype=np.int32)

    def weigh(self, found: Floats) -> Floats:
        """Weights of models from their probabilities of all rows, on the half for it; every corpus counts the same."""
        rows = (self.tuned & self.known).astype(bool)
        shares = np.bincount(self.corpus[rows], minlength=len(self.corpora))
        return weigh(found[rows], 1 / shares[self.corpus[rows]])

    def perplexities(self, title: str, found: Floats) -> str:
        """A line with those of every corpus: of the half that nothing was fitted on, and of both halves."""
        parts = []
        for number, corpus in enumerate(self.corpora):
            rows = (self.corpus == number) & (self.known == 1)
            other, every = perplexity(found[rows & (self.tuned == 0)]), perplexity(found[rows])
            parts.append(f"{corpus} {other:.1f} ({every:.1f})")
        return f"perplexity, {title}, other half (all): {', '.join(parts)}"


def perplexity(found: Floats) -> float:
    """The inverse of the mean probability, geometrically; of nothing it is not a number."""
    return float(np.exp(-np.log(found).mean())) if len(found) else float("nan")
