"""The cost of the losses is measured on a batch."""

from __future__ import annotations

from pathlib import Path

import torch

from streamer.engine.models.acoustic_model import AcousticModel, ModelDescription
from streamer.training.acoustic import units
from streamer.training.phones.denominator import NgramTables
from streamer.training.phones.loss_cost import encoder_ms, loss_ms, phone_emissions
from streamer.training.phones.phone_ngram import estimate
from tests.training.acoustic.tiny_run import CPU, ENCODER, NAMES, aligned, batches, make_work


def test_each_part_takes_time_and_leaves_no_gradient(tmp_path: Path) -> None:
    """The n-gram's sum takes more time than CTC alone, and no gradient is left."""
    source = batches(make_work(tmp_path))
    batch = source.tensors(source.epoch(0, 100.0)[0], "seed")
    model = AcousticModel(ModelDescription("test", ENCODER, NAMES, (320,)))
    emissions = phone_emissions(model, batch)
    tables = NgramTables(estimate([units.phones(aligned("u"))], len(units.PHONE_UNITS), 2), CPU)
    assert encoder_ms(model, batch, torch.float32) > 0
    assert loss_ms(emissions, batch, tables) > 0
    assert loss_ms(emissions, batch, None) > 0
    assert all(weight.grad is None for weight in model.parameters())
