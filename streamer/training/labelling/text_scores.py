"""Scores texts by the emissions of the acoustic model: the likelihood of their phones under CTC."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from streamer.training.acoustic.units import BLANK, BOUNDARY, PHONE_NUMBER
from streamer.training.language.pronunciation import Pronunciations


class TextScores:
    """Scores texts by emissions of the phones' head. It remembers the pronunciations of words."""

    def __init__(self, pronunciations: Pronunciations) -> None:
        self._pronunciations = pronunciations
        self._units_by_word: dict[str, list[int]] = {}

    def score(self, emissions: Tensor, texts: Sequence[str]) -> list[float]:
        """Return the log-likelihood of each text for emissions [frames, units], divided by the number of frames.

        The score of a text that is too long for this number of frames is minus infinity.
        """
        units = [self.units(text) for text in texts]
        lengths = torch.tensor([len(numbers) for numbers in units])
        targets = torch.nn.utils.rnn.pad_sequence([torch.tensor(numbers) for numbers in units], batch_first=True)
        frames = len(emissions)
        losses = torch.nn.functional.ctc_loss(
            emissions.float().unsqueeze(1).expand(-1, len(texts), -1),
            targets,
            torch.full((len(texts),), frames),
            lengths,
            blank=BLANK,
            reduction="none",
        )
        return [-loss / frames for loss in losses.tolist()]

    def units(self, text: str) -> list[int]:
        """Return the phones of a text: the most usual pronunciation of each word, and a boundary after it."""
        return [unit for word in text.split() for unit in self._pronounced(word)]

    def _pronounced(self, word: str) -> list[int]:
        if word not in self._units_by_word:
            phones = next(iter(self._pronunciations.variants(word)), ())
            self._units_by_word[word] = [PHONE_NUMBER[phone] for phone in (*phones, BOUNDARY)]
        return self._units_by_word[word]
