"""Measures the processor time of the losses of the phones head on a batch, and of the rest of a step."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional

from streamer.engine.models.acoustic_model import AcousticModel
from streamer.engine.models.features import CONTEXT
from streamer.training.acoustic.batches import Batch
from streamer.training.phones.ctc_crf import sequence_losses
from streamer.training.phones.denominator import NgramTables

TIMES = 3
CHUNK_FRAMES = 8


def encoder_ms(model: AcousticModel, batch: Batch, precision: torch.dtype) -> float:
    """Measure features and encoder on a batch, forward and backward."""

    def once() -> None:
        mel = model.features(functional.pad(batch.samples, (CONTEXT, 0)))
        with torch.autocast(mel.device.type, precision, enabled=precision != torch.float32):
            found = model.encoder(mel, batch.lengths, CHUNK_FRAMES, model.description.encoder.left_frames)
        torch.stack([emissions.sum() for emissions in found.values()]).sum().backward()
        model.zero_grad(set_to_none=True)

    return _milliseconds(once, model.device)


def loss_ms(emissions: Tensor, batch: Batch, tables: NgramTables | None) -> float:
    """Measure CTC-CRF on a batch, forward and backward; without tables, CTC alone."""
    targets, lengths = batch.targets["phones"], batch.target_lengths["phones"]

    def once() -> None:
        leaf = emissions.detach().requires_grad_(True)
        if tables:
            total = sequence_losses(leaf, batch.lengths, targets, lengths, tables).mixed(0.2)
        else:
            total = functional.ctc_loss(leaf.transpose(0, 1), targets, batch.lengths, lengths, zero_infinity=True)
        total.backward()

    return _milliseconds(once, emissions.device)


@torch.no_grad()
def phone_emissions(model: AcousticModel, batch: Batch) -> Tensor:
    """Return the model's emissions of the phones' head for a batch."""
    return model(batch.samples, batch.lengths, CHUNK_FRAMES)["phones"]


def _milliseconds(once: Callable[[], None], device: torch.device) -> float:
    """Return the median of a few measured times, after one that is not counted."""
    gpu = device.type == "cuda"
    clock = time.perf_counter if gpu else time.process_time
    times = []
    for _ in range(TIMES + 1):
        started = clock()
        once()
        if gpu:
            torch.cuda.synchronize(device)
        times.append(1e3 * (clock() - started))
    return median(times[1:])
