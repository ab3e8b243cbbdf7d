"""The emissions of a bundle for a prepared set: the input of searches. They are computed once and kept in files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from streamer.engine.models.acoustic_model import WEIGHTS_FILE, AcousticModel
from streamer.training.acoustic.evaluation_batches import FRAME_MS, TAIL_SAMPLES, batches, padded
from streamer.training.data.corpus import Corpus, Utterance
from streamer.training.data.replaced_file import replacing

HEAD = "phones"
CHARACTERS_HEAD = "characters"


@dataclass(frozen=True)
class EmittedUtterance:
    """One utterance: the log-probabilities of its frames [frames, units], and its text."""

    emissions: Tensor
    utterance: Utterance

    @property
    def words(self) -> list[str]:
        """The words of the reference."""
        return self.utterance.text.split()


def read_emissions(
    bundle: Path, work: Path, name: str, cache: Path, step_ms: int = 320, head: str = HEAD
) -> list[EmittedUtterance]:
    """Return the emissions of a prepared set, as in streaming; from the cache if these weights were used before."""
    corpus = Corpus(work, name)
    model = AcousticModel.load(bundle)
    digest = hashlib.sha256((bundle / WEIGHTS_FILE).read_bytes()).hexdigest()[:12]
    paths = {
        HEAD: cache / f"{name}-{step_ms}-{digest}.pt",
        CHARACTERS_HEAD: cache / f"{name}-{step_ms}-{digest}-{CHARACTERS_HEAD}.pt",
    }
    if not paths[head].is_file():
        for computed, emissions in _compute(model, corpus, step_ms).items():
            with replacing(paths[computed], "wb") as file:
                torch.save(emissions, file)
    stored: dict[str, Tensor] = torch.load(paths[head], weights_only=True)
    return [EmittedUtterance(stored[utterance.name], utterance) for utterance in corpus.utterances]


@torch.inference_mode()
def _compute(model: AcousticModel, corpus: Corpus, step_ms: int) -> dict[str, dict[str, Tensor]]:
    """Compute the emissions of all heads at once, because the encoder takes most of the time."""
    by_head: dict[str, dict[str, Tensor]] = {HEAD: {}, CHARACTERS_HEAD: {}}
    for utterances in batches(corpus):
        samples = torch.stack([padded(corpus, utterance, utterances[-1].samples) for utterance in utterances])
        lengths = [(utterance.samples + TAIL_SAMPLES) // model.frame_samples for utterance in utterances]
        left = model.description.encoder.left_frames
        emissions = model(samples, torch.tensor(lengths), step_ms // FRAME_MS, left)
        for head, of_head in by_head.items():
            for row, (utterance, length) in enumerate(zip(utterances, lengths, strict=True)):
                of_head[utterance.name] = emissions[head][row, :length].clone()
    return by_head
