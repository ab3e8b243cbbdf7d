"""The losses of the heads follow the schedule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from streamer.training.acoustic import units
from streamer.training.acoustic.batches import Recipe
from streamer.training.acoustic.head_losses import HEAD_WEIGHTS, HeadLosses
from streamer.training.acoustic.schedule import Schedule
from streamer.training.phones.denominator import NgramTables
from streamer.training.phones.expected_errors import Alternative
from streamer.training.phones.phone_ngram import estimate
from tests.training.acoustic.tiny_run import CPU, NAMES, aligned, batches


def test_ctc_crf_takes_over_and_what_is_told_can_be_compared(work: Path) -> None:
    """CTC-CRF replaces CTC for the named heads; the reported figures do not contain the shares."""
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


class Alternatives:
    """Gives two alternatives for each row, whatever the audio is."""

    def find(self, emissions: Tensor, lengths: Sequence[int]) -> list[list[Alternative]]:
        """Return a right and a wrong text with the same score."""
        right = Alternative(("a", "cat"), -1.0, [[("AH",)], [("K", "AE", "T")]])
        return [[right, Alternative(("a",), -1.0, [[("AH",)]])] for _ in lengths]


def test_words_that_may_be_wrong_are_counted_when_the_schedule_says_so(work: Path) -> None:
    """From its step on, the expected share of wrong words is added, and the phones learn from it."""
    source = batches(work, Recipe(seconds=4.0, joined=0.0))
    batch = source.tensors(source.epoch(0, 100.0)[0], "seed")
    assert set(batch.texts) == {"a cat"}
    found = {
        head: torch.randn(*batch.labels.shape, len(names)).log_softmax(-1).requires_grad_(True)
        for head, names in NAMES.items()
    }
    losses = HeadLosses(Schedule(1.0, aligned_steps=0, errors_from=7), alternatives=Alternatives())
    assert "words" not in losses(found, batch, 6).losses
    counted = losses(found, batch, 7)
    assert counted.figures["words_wrong"].item() == pytest.approx(0.25)
    assert counted.losses["words"].item() == pytest.approx(0.25 * HEAD_WEIGHTS["phones"])
    counted.losses["words"].backward()
    assert found["phones"].grad is not None
    assert found["phones"].grad.any()
