"""Offsets for the scores of the marks."""

from __future__ import annotations

import torch

from streamer.training.punctuation.labelled_text import UNLABELLED
from streamer.training.punctuation.mark_offsets import best_offsets


def test_a_mark_that_is_found_too_rarely_gets_more() -> None:
    """A mark that is set too rarely gets the offset with the best F1; a mark with a good F1 gets none."""
    torch.manual_seed(0)
    labels = torch.randint(3, (3000,))
    scores = torch.nn.functional.one_hot(labels, 3) * 2.0 + torch.randn(3000, 3)
    scores[:, 1] -= 1.0
    labels[:50] = UNLABELLED
    offsets = best_offsets(scores, labels)
    assert offsets[0] == 0
    assert 0.5 < offsets[1] < 1.6
    assert offsets[2] < 0.4
