"""Phone and word errors of a model on a prepared set, greedy, under the masks that equal streaming."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from streamer.engine.models.acoustic_model import AcousticModel
from streamer.training.acoustic import units
from streamer.training.data.alignment import Alignment
from streamer.training.data.corpus import SAMPLE_RATE, Corpus, Utterance

FRAME_MS = 40
BATCH_SECONDS = 120
# As a service does at the end of a stream: the last word has to come through the model.
TAIL_SAMPLES = SAMPLE_RATE * 6 // 10
TAIL_LEVEL = 1e-4


@dataclass
class Score:
    """Errors and reference lengths, added up."""

    phones: int = 0
    phone_errors: int = 0
    letters: int = 0
    letter_errors: int = 0
    words: int = 0
    word_errors: int = 0

    def add(self, utterance: Utterance, alignment: Alignment, phones: list[int], letters: list[int]) -> None:
        """Count one utterance: phones without boundaries, characters, words."""
        boundary = units.PHONE_NUMBER[units.BOUNDARY]
        wanted = [unit for unit in units.phones(alignment) if unit != boundary]
        self.phones += len(wanted)
        self.phone_errors += units.errors(wanted, [unit for unit in phones if unit != boundary])
        text = "".join(units.CHARACTERS[unit] for unit in letters)
        self.letters += len(utterance.text)
        self.letter_errors += units.errors(utterance.text, text)
        self.words += len(utterance.text.split())
        self.word_errors += units.errors(utterance.text.split(), text.split())

    def rates(self) -> dict[str, float]:
        """Phone, character and word error rates in percent."""
        return {
            "phones": 100 * self.phone_errors / max(self.phones, 1),
            "characters": 100 * self.letter_errors / max(self.letters, 1),
            "words": 100 * self.word_errors / max(self.words, 1),
        }


@torch.inference_mode()
def evaluate(
    model: AcousticModel, corpus: Corpus, alignments: dict[str, Alignment], step_ms: int
) -> dict[str, dict[str, float]]:
    """Error rates by corpus and of everything ("all"), at one step length."""
    scores: dict[str, Score] = defaultdict(Score)
    for utterances in batches(corpus):
        samples = torch.stack([padded(corpus, utterance, utterances[-1].samples) for utterance in utterances])
        lengths = torch.tensor([(utterance.samples + TAIL_SAMPLES) // model.frame_samples for utterance in utterances])
        left = model.description.encoder.left_frames
        found = model(samples.to(model.device), lengths.to(model.device), step_ms // FRAME_MS, left)
        best = {head: found[head].argmax(-1).tolist() for head in ("phones", "characters")}
        for row, (utterance, length) in enumerate(zip(utterances, lengths.tolist(), strict=True)):
            phones, letters = (units.collapse(best[head][row][:length]) for head in ("phones", "characters"))
            for name in (utterance.corpus, "all"):
                scores[name].add(utterance, alignments[utterance.name], phones, letters)
    return {name: score.rates() for name, score in scores.items()}


def report(rates: dict[str, dict[str, float]]) -> str:
    """Error rates as a table."""
    lines = [f"{'corpus':32s}  phones  characters  words (errors in %)"]
    for name, row in rates.items():
        lines.append(f"{name:32s}  {row['phones']:6.1f}  {row['characters']:10.1f}  {row['words']:5.1f}")
    return "\n".join(lines)


def batches(corpus: Corpus) -> Iterator[list[Utterance]]:
    """The utterances in batches of like length, the longest of each last."""
    batch: list[Utterance] = []
    for utterance in sorted(corpus.utterances, key=lambda utterance: utterance.samples):
        if batch and utterance.seconds * (len(batch) + 1) > BATCH_SECONDS:
            yield batch
            batch = []
        batch.append(utterance)
    yield batch


def padded(corpus: Corpus, utterance: Utterance, longest: int) -> torch.Tensor:
    """Samples and a tail of faint noise, as long as those of an utterance with `longest` samples."""
    generator = torch.Generator().manual_seed(0)
    whole = -(-(longest + TAIL_SAMPLES) // 640) * 640
    samples = torch.randn(whole, generator=generator) * TAIL_LEVEL
    samples[: utterance.samples] = torch.from_numpy(corpus.samples(utterance).copy()).float() / 32768.0
    return samples
