"""A prepared set in batches for evaluation: utterances of similar length, each with the tail that a service adds."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from streamer.training.data.corpus import SAMPLE_RATE, Corpus, Utterance

FRAME_MS = 40
FRAME_SAMPLES = FRAME_MS * SAMPLE_RATE // 1000
BATCH_SECONDS = 120
# A service adds the same at the end of a stream, because the model emits the last word with a delay.
TAIL_SAMPLES = SAMPLE_RATE * 6 // 10
TAIL_LEVEL = 1e-4


def batches(corpus: Corpus) -> Iterator[list[Utterance]]:
    """Return the utterances in batches of similar length. The last one of each batch is the longest."""
    batch: list[Utterance] = []
    for utterance in sorted(corpus.utterances, key=lambda utterance: utterance.samples):
        if batch and utterance.seconds * (len(batch) + 1) > BATCH_SECONDS:
            yield batch
            batch = []
        batch.append(utterance)
    yield batch


def padded(corpus: Corpus, utterance: Utterance, longest: int) -> Tensor:
    """Add a tail of faint noise to these samples, up to the length of `longest` samples with their own tail."""
    generator = torch.Generator().manual_seed(0)
    whole = -(-(longest + TAIL_SAMPLES) // FRAME_SAMPLES) * FRAME_SAMPLES
    samples = torch.randn(whole, generator=generator) * TAIL_LEVEL
    samples[: utterance.samples] = torch.from_numpy(corpus.samples(utterance).copy()).float() / 32768.0
    return samples
