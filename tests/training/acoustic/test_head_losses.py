"""The losses of the heads, as the schedule says."""

from __future__ import annotations

from pathlib import Path

import torch

from streamer.training.acoustic import units
from streamer.training.acoustic.head_losses import HEAD_WEIGHTS, HeadLosses
from streamer.training.acoustic.schedule import Schedule
from streamer.training.phones.denominator import NgramTables
from streamer.training.phones.phone_ngram import estimate
from tests.training.acoustic.tiny_run import CPU, NAMES, aligned, batches


def test_ctc_crf_takes_over_and_what_is_told_can_be_compared(work: Path) -> None:
    """Figures have no shares in them; the heads that learn by CTC-CRF are those that were named."""
    source = batches(work)
    batch = source.tensors(source.epoch(0, 100.0)[0], "seed")
    found = {
        head: torch.randn(*batch.labels.shape, len(names)).log_softmax(-1).requires_grad_(True)
        for head, names in NAMES.items()
    }
    tables = NgramTables(estimate([units.phones(aligned("u"))], len(units.PHONE_UNITS), 3), CPU)
    schedule = Schedule(1.0, aligned_steps=2, crossfade_steps=2, crf_from=10, ctc_share=0.25)
    losses = HeadLosses(schedule, tables, ("phones", "phones_middle"))
    assert set(losses(found, batch, 0).losses) == {"phones_frames", "phones_middle_frames", "characters"}
    assert set(losses(found, batch, 3).losses) == {*HEAD_WEIGHTS, "phones_frames", "phones_middle_frames"}
    plain, whole = losses(found, batch, 5), losses(found, batch, 20)
    assert set(plain.losses) == set(whole.losses) == set(HEAD_WEIGHTS)
    assert not plain.figures
    ctc = whole.figures["phones_ctc"]
    torch.testing.assert_close(plain.losses["phones"], HEAD_WEIGHTS["phones"] * ctc)
    assert whole.figures["phones_crf"] > 0
    assert whole.losses["phones"] < plain.losses["phones"]
    only_top = HeadLosses(schedule, tables)(found, batch, 20)
    torch.testing.assert_close(only_top.losses["phones_middle"], plain.losses["phones_middle"])
    torch.testing.assert_close(only_top.total, sum(only_top.losses.values()))
    only_top.total.backward()
    assert all(torch.isfinite(emissions.grad).all() for emissions in found.values() if emissions.grad is not None)
