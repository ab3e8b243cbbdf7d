"""Computes the phone and word errors of a model on a prepared set, with greedy search.

Whole utterances are computed with masks that give the same results as streaming.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch

from streamer.engine.models.acoustic_model import AcousticModel
from streamer.training.acoustic import units
from streamer.training.acoustic.evaluation_batches import FRAME_MS, TAIL_SAMPLES, batches, padded
from streamer.training.data.alignment import Alignment
from streamer.training.data.corpus import Corpus, Utterance


@dataclass
class Errors:
    """Sums of errors and of reference lengths."""

    phones: int = 0
    phone_errors: int = 0
    letters: int = 0
    letter_errors: int = 0
    words: int = 0
    word_errors: int = 0

    def add(self, utterance: Utterance, alignment: Alignment, phones: list[int], letters: list[int]) -> None:
        """Add one utterance: its phones without boundaries, its characters, its words."""
        boundary = units.PHONE_NUMBER[units.BOUNDARY]
        reference = [unit for unit in units.phones(alignment) if unit != boundary]
        self.phones += len(reference)
        self.phone_errors += units.errors(reference, [unit for unit in phones if unit != boundary])
        text = "".join(units.CHARACTERS[unit] for unit in letters)
        self.letters += len(utterance.text)
        self.letter_errors += units.errors(utterance.text, text)
        self.words += len(utterance.text.split())
        self.word_errors += units.errors(utterance.text.split(), text.split())

    def rates(self) -> dict[str, float]:
        """Return the phone, character and word error rates in percent."""
        return {
            "phones": 100 * self.phone_errors / max(self.phones, 1),
            "characters": 100 * self.letter_errors / max(self.letters, 1),
            "words": 100 * self.word_errors / max(self.words, 1),
        }


@torch.inference_mode()
def evaluate(
    model: AcousticModel, corpus: Corpus, alignments: dict[str, Alignment], step_ms: int
) -> dict[str, dict[str, float]]:
    """Return the error rates by corpus and of everything ("all"), at one step length."""
    errors: dict[str, Errors] = defaultdict(Errors)
    for utterances in batches(corpus):
        samples = torch.stack([padded(corpus, utterance, utterances[-1].samples) for utterance in utterances])
        lengths = torch.tensor([(utterance.samples + TAIL_SAMPLES) // model.frame_samples for utterance in utterances])
        left = model.description.encoder.left_frames
        emissions = model(samples.to(model.device), lengths.to(model.device), step_ms // FRAME_MS, left)
        best = {head: emissions[head].argmax(-1).tolist() for head in ("phones", "characters")}
        for row, (utterance, length) in enumerate(zip(utterances, lengths.tolist(), strict=True)):
            phones, letters = (units.collapse(best[head][row][:length]) for head in ("phones", "characters"))
            for name in (utterance.corpus, "all"):
                errors[name].add(utterance, alignments[utterance.name], phones, letters)
    return {name: sums.rates() for name, sums in errors.items()}


def report(rates: dict[str, dict[str, float]]) -> str:
    """Return the error rates as a table."""
    lines = [f"{'corpus':32s}  phones  characters  words (errors in %)"]
    for name, row in rates.items():
        lines.append(f"{name:32s}  {row['phones']:6.1f}  {row['characters']:10.1f}  {row['words']:5.1f}")
    return "\n".join(lines)
