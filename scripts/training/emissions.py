"""What a bundle's phone head says of a prepared set, computed once and kept in a file: the searches' input."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from streamer.engine.acoustic import WEIGHTS_FILE, AcousticModel
from training.corpus import Corpus, Utterance, replacing
from training.scoring import FRAME_MS, TAIL_SAMPLES, batches, padded

HEAD = "phones"


@dataclass(frozen=True)
class Spoken:
    """One utterance: the log-probabilities of its frames [frames, units], and what is said."""

    emissions: Tensor
    utterance: Utterance

    @property
    def words(self) -> list[str]:
        """The words of the reference."""
        return self.utterance.text.split()


def read_emissions(bundle: Path, work: Path, name: str, cache: Path, step_ms: int = 320) -> list[Spoken]:
    """The emissions of a prepared set as streaming gives them, from the cache where these weights were there before."""
    corpus = Corpus(work, name)
    model = AcousticModel.load(bundle)
    mark = hashlib.sha256((bundle / WEIGHTS_FILE).read_bytes()).hexdigest()[:12]
    path = cache / f"{name}-{step_ms}-{mark}.pt"
    if path.is_file():
        found: dict[str, Tensor] = torch.load(path, weights_only=True)
    else:
        found = _compute(model, corpus, step_ms)
        with replacing(path, "wb") as file:
            torch.save(found, file)
    return [Spoken(found[utterance.name], utterance) for utterance in corpus.utterances]


@torch.inference_mode()
def _compute(model: AcousticModel, corpus: Corpus, step_ms: int) -> dict[str, Tensor]:
    found = {}
    for utterances in batches(corpus):
        samples = torch.stack([padded(corpus, utterance, utterances[-1].samples) for utterance in utterances])
        lengths = [(utterance.samples + TAIL_SAMPLES) // model.frame_samples for utterance in utterances]
        left = model.description.encoder.left_frames
        emissions = model(samples, torch.tensor(lengths), step_ms // FRAME_MS, left)[HEAD]
        for row, (utterance, length) in enumerate(zip(utterances, lengths, strict=True)):
            found[utterance.name] = emissions[row, :length].clone()
    return found
