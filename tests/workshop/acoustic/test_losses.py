"""Which loss counts when, how two views agree, and what a teacher says about a batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.networks.acoustic_network import AcousticNetwork
from tests.workshop.acoustic.tiny_run import CPU, ENCODER, NAMES, aligned, batches
from workshop.acoustic import units
from workshop.acoustic.batches import Recipe
from workshop.acoustic.losses import (
    GOING_ON,
    HEAD_WEIGHTS,
    HeadLosses,
    Schedule,
    Teacher,
    disagreement,
    distance,
    doubled,
)
from workshop.phones.denominator import NgramTables
from workshop.phones.expected_errors import Alternative
from workshop.phones.phone_ngram import estimate


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
    # The emissions are random, so a wrong alternative may have a share in a million.
    assert counted.figures["words_wrong"].item() == pytest.approx(0.25, rel=1e-4)
    assert counted.losses["words"].item() == pytest.approx(0.25 * HEAD_WEIGHTS["phones"], rel=1e-4)
    counted.losses["words"].backward()
    assert found["phones"].grad is not None
    assert found["phones"].grad.any()


def test_the_rate_rises_stays_and_falls_to_zero() -> None:
    """The learning rate first depends on the steps, and later on the plan."""
    schedule = Schedule(10.0, rate=1.0, rise_steps=10, fall=0.5)
    rates = [schedule.learning_rate(4, 0.0), schedule.learning_rate(99, 0.3), schedule.learning_rate(99, 0.75)]
    assert rates == [0.5, 1.0, 0.5]
    assert schedule.learning_rate(99, 1.0) == 0


def test_a_plan_is_of_minutes_or_of_steps() -> None:
    """A plan may have a number of steps, so that runs can be compared with equal steps."""
    assert Schedule(minutes=10.0).progress(1000, 300.0) == 0.5
    assert Schedule(steps=2000).progress(1000, 300.0) == 0.5


def test_the_end_of_a_plan_can_have_usual_conditions() -> None:
    """The conditions of a run hold until the share of the plan begins that has usual ones."""
    assert [Schedule(10.0, usual_last=0.3).is_usual(progress) for progress in (0.0, 0.6, 0.8)] == [False, False, True]
    assert not Schedule(10.0).is_usual(0.999)


def test_each_loss_takes_over_from_the_one_before() -> None:
    """Aligned frames, CTC and CTC-CRF follow each other; a run that begins with CTC-CRF has all of it at once."""
    schedule = Schedule(10.0, aligned_steps=100, crossfade_steps=10, crf_from=1000, ctc_share=0.25)
    assert [schedule.frame_share(step) for step in (0, 105, 110, 2000)] == [1, 0.5, 0, 0]
    shares = [schedule.denominator_share(step) for step in (0, 999, 1004, 1009, 2000)]
    assert shares == pytest.approx([0, 0, 0.375, 0.75, 0.75])
    assert Schedule(10.0, aligned_steps=0).frame_share(0) == 0
    assert Schedule(10.0).denominator_share(5000) == 0
    assert GOING_ON.frame_share(0) == 0
    assert [Schedule(10.0, errors_from=5).counts_errors(step) for step in (4, 5)] == [False, True]
    assert not GOING_ON.counts_errors(1000)
    assert Schedule(10.0, crf_from=0).denominator_share(0) == 0.8


def test_views_that_agree_cost_nothing_and_others_come_nearer() -> None:
    """Equal views cost nothing, training brings others closer, and frames after the end do not count."""
    torch.manual_seed(0)
    logits = torch.randn(4, 6, 5).requires_grad_(True)
    lengths = torch.tensor([6, 3, 6, 3])
    before = disagreement(logits.log_softmax(-1), lengths)
    (gradient,) = torch.autograd.grad(before, logits)
    assert before > 0
    assert not gradient[1, 3:].any()
    after = disagreement((logits - 0.1 * gradient).log_softmax(-1), lengths)
    assert after < before
    same = logits[:2].repeat(2, 1, 1).log_softmax(-1)
    assert disagreement(same, lengths).abs() < 1e-5


def test_it_is_the_mean_of_both_divergences() -> None:
    """For one frame of two units, the loss is the mean of both divergences, computed by hand."""
    first, second = torch.tensor([0.5, 0.5]), torch.tensor([0.9, 0.1])
    found = disagreement(torch.stack((first, second)).log().unsqueeze(1), torch.tensor([1, 1]))
    wanted = 0.5 * ((first * (first / second).log()).sum() + (second * (second / first).log()).sum())
    torch.testing.assert_close(found, wanted)


def test_a_doubled_batch_has_the_targets_of_every_row_twice(work: Path) -> None:
    """A doubled batch has the targets of all rows twice, in the order of the rows."""
    source = batches(work)
    batch = source.tensors(source.epoch(0, 100.0)[0], "seed")
    rows, both = len(batch.lengths), doubled(batch)
    assert len(both.samples) == rows
    for head, lengths in both.target_lengths.items():
        assert torch.equal(lengths[:rows], lengths[rows:])
        first, second = both.targets[head].split(int(lengths[:rows].sum()))
        assert torch.equal(first, second)
    assert both.labels.shape[0] == len(both.lengths) == 2 * rows


def test_a_model_is_not_away_from_itself_and_a_gradient_leads_to_the_teacher() -> None:
    """The distance is zero for the teacher itself, and otherwise the divergence inside the utterances."""
    taught = torch.randn(2, 6, 5).log_softmax(-1)
    lengths = torch.tensor([6, 4])
    assert distance(taught, taught, lengths).abs() < 1e-5
    values = torch.randn(2, 6, 5, requires_grad=True)
    found = values.log_softmax(-1)
    wanted = functional.kl_div(found[0], taught[0], reduction="sum", log_target=True)
    wanted = wanted + functional.kl_div(found[1, :4], taught[1, :4], reduction="sum", log_target=True)
    apart = distance(taught, found, lengths)
    torch.testing.assert_close(apart, wanted)
    apart.backward()
    assert values.grad is not None
    assert not values.grad[1, 4:].any()
    nearer = (values.detach() - 0.1 * values.grad).log_softmax(-1)
    assert distance(taught, nearer, lengths) < apart


def test_a_teacher_hears_as_much_as_the_model_that_it_teaches(tmp_path: Path) -> None:
    """The teacher gives the results of its weights with the same chunks, and its weights do not learn."""
    torch.manual_seed(0)
    AcousticNetwork(ModelDescription("test", ENCODER, NAMES, (320,))).save(tmp_path)
    model = AcousticNetwork.load(tmp_path)
    audio, lengths = torch.randn(2, 20 * 640) / 10, torch.tensor([20, 15])
    lesson = Teacher(tmp_path, 0.5, CPU).lesson(audio, lengths, 4, 8)
    assert lesson.weight == 0.5
    assert not lesson.emissions.requires_grad
    torch.testing.assert_close(lesson.emissions, model(audio, lengths, 4, 8)["phones"], atol=0.2, rtol=0.02)
    assert lesson.repeated(2).emissions.shape == (4, 20, len(NAMES["phones"]))


def test_a_teacher_that_learns_itself_says_what_it_knows_by_now(tmp_path: Path) -> None:
    """The teacher reads its weights again when their run has written new ones."""
    torch.manual_seed(0)
    description = ModelDescription("test", ENCODER, NAMES, (320,))
    AcousticNetwork(description).save(tmp_path)
    teacher = Teacher(tmp_path, 0.5, CPU)
    audio, lengths = torch.randn(1, 20 * 640) / 10, torch.tensor([20])
    before = teacher.lesson(audio, lengths, 4, 8).emissions
    torch.testing.assert_close(teacher.lesson(audio, lengths, 4, 8).emissions, before)
    AcousticNetwork(description).save(tmp_path)
    after = teacher.lesson(audio, lengths, 4, 8).emissions
    assert (after - before).abs().max() > 0.01
    torch.testing.assert_close(after, Teacher(tmp_path, 0.5, CPU).lesson(audio, lengths, 4, 8).emissions)
