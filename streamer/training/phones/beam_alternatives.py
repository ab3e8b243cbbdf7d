"""Finds alternatives for the rows of a training batch with the search of the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from streamer.engine.bundle import LETTERS_FILE, LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.beam_search import BeamSearch
from streamer.training.acoustic import units
from streamer.training.language.pronunciation import Pronunciations, cmu_dictionary
from streamer.training.phones.expected_errors import Alternative

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
