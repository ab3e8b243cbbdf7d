"""Minimum word error rate training: the expected number of wrong words, over the alternatives that a search finds.

The search gives each alternative i of an utterance a score s(i). e(i) is its number of word errors. The expected number
of errors of the utterance is

    sum over i of p(i) e(i),        p(i) = exp(s(i)) / sum over the alternatives of exp(s)

One part of s(i) depends on the head. It is the score of the likeliest path through any pronunciations of the words, so
the gradient reaches the frames in which the alternatives differ. The language model's part of s(i) is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from streamer.engine.bundle import LETTERS_FILE, LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.search.search import BeamOptions
from workshop.acoustic import units
from workshop.language.pronunciation import Phones, Pronunciations, cmu_dictionary
from workshop.phones.alignment import RESTING, PronunciationGraph, best_paths


@dataclass(frozen=True)
class Alternative:
    """A text that may have been said: its words and their pronunciations, and the search's log-probability of it."""

    words: tuple[str, ...]
    score: float
    pronunciations: list[list[Phones]]


class AlternativeSource(Protocol):
    """Finds the alternatives of each row, the likeliest first."""

    def find(self, emissions: Tensor, lengths: Sequence[int]) -> list[list[Alternative]]:
        """Find them from log-probabilities [rows, frames, units]."""
        ...


def expected_errors(emissions: Tensor, lengths: Tensor, texts: Sequence[str], source: AlternativeSource) -> Tensor:
    """Return the expected number of wrong words in all rows. A row with fewer than two alternatives counts nothing."""
    fixed, frames = emissions.detach(), lengths.tolist()
    rows = [
        (row, alternative)
        for row, alternatives in enumerate(source.find(fixed, frames))
        if len(alternatives) > 1
        for alternative in alternatives
    ]
    total = emissions.new_zeros(())
    if not rows:
        return total
    numbers = [row for row, _ in rows]
    graphs = [PronunciationGraph.of(alternative.pronunciations) for _, alternative in rows]
    paths = best_paths(fixed[numbers], [frames[row] for row in numbers], graphs)
    for row, text in enumerate(texts):
        scores, errors = [], []
        for (owner, alternative), graph, path in zip(rows, graphs, paths, strict=True):
            if owner == row and path is not None:
                said = [units.BLANK if node == RESTING else graph.labels[node] for node in path]
                acoustic = emissions[row, torch.arange(len(said)), said].sum()
                scores.append(alternative.score + acoustic - acoustic.detach())
                errors.append(units.errors(text.split(), alternative.words))
        if len(scores) > 1:
            total = total + torch.stack(scores).softmax(0) @ emissions.new_tensor(errors)
    return total


# Finds alternatives for the rows of a training batch with the search of the service.

STEP_FRAMES = 8
MOST_ROWS = 64
"""The rows of a batch that are searched. The others do not count in this step."""

# The value of frames that are added to fill a step.
SURE, NEVER = 0.0, -30.0


class BeamAlternatives:
    """Finds alternatives with the lexicon, the language model and the tuned weights of a bundle."""

    def __init__(
        self,
        lexicon: Lexicon,
        language: LanguageModel,
        options: BeamOptions,
        pronunciations: Pronunciations,
        number: int,
    ) -> None:
        """`number`: the most alternatives of a row."""
        self._search = BeamSearch(lexicon, language, units.PHONE_UNITS, MOST_ROWS, options)
        self._pronunciations = pronunciations
        self._number = number

    @classmethod
    def load(cls, bundle: Path, number: int = 4, beam: int = 64) -> BeamAlternatives:
        """Load the search of a bundle, with a narrower beam, because only the likeliest alternatives are needed."""
        options = replace(BeamOptions.load(bundle / SEARCH_FILE), beam=beam)
        pronunciations = Pronunciations(cmu_dictionary(), LetterToSound.load(bundle / LETTERS_FILE))
        lexicon = Lexicon.load(bundle / LEXICON_FILE)
        return cls(lexicon, LanguageModel.load(bundle / LANGUAGE_FILE), options, pronunciations, number)

    def find(self, emissions: Tensor, lengths: Sequence[int]) -> list[list[Alternative]]:
        """Return the alternatives of each row, the likeliest first."""
        searched = min(len(emissions), MOST_ROWS)
        self._search.reset(range(searched))
        padded = emissions[:searched].float().clone()
        blank = padded.new_full(padded.shape[2:], NEVER)
        blank[units.BLANK] = SURE
        for row, length in enumerate(lengths[:searched]):
            padded[row, length:] = blank
        missing = -padded.shape[1] % STEP_FRAMES
        padded = torch.cat((padded, blank.expand(searched, missing, -1)), 1)
        for start in range(0, padded.shape[1], STEP_FRAMES):
            rows = [row for row in range(searched) if start < lengths[row]]
            self._search.advance(rows, {"phones": padded[rows, start : start + STEP_FRAMES]})
        alternatives = [self._alternatives(row) for row in range(searched)]
        return alternatives + [[] for _ in range(len(emissions) - searched)]

    def _alternatives(self, row: int) -> list[Alternative]:
        ranked = ((tuple(word.text for word in words), score) for words, score in self._search.ranking(row))
        spoken = [(words, score) for words, score in ranked if words][: self._number]
        return [
            Alternative(words, score, [self._pronunciations.variants(word) or [()] for word in words])
            for words, score in spoken
        ]
