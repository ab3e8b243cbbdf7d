"""The consistency loss makes two views of the same audio agree."""

from __future__ import annotations

from pathlib import Path

import torch

from streamer.training.acoustic.consistency import disagreement, doubled
from tests.training.acoustic.tiny_run import batches


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
