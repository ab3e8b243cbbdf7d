"""Dropout is for training only."""

from __future__ import annotations

import torch

from streamer.engine.models.encoder import Encoder, FeedForward
from streamer.training.augmentation.dropout import add_dropout
from tests.training.acoustic.tiny_run import ENCODER


def test_dropout_changes_the_training_and_nothing_else() -> None:
    """With dropout, two passes of the training differ; in evaluation mode they are as without it."""
    torch.manual_seed(0)
    encoder, mel, lengths = Encoder(ENCODER), torch.randn(2, 40, 80), torch.tensor([10, 7])
    names = list(encoder.state_dict())
    before = encoder.eval()(mel, lengths)["phones"]
    add_dropout(encoder, 0.2)
    assert list(encoder.state_dict()) == names
    torch.testing.assert_close(encoder(mel, lengths)["phones"], before)
    encoder.train()
    assert not torch.allclose(encoder(mel, lengths)["phones"], encoder(mel, lengths)["phones"])


def test_what_a_part_adds_keeps_its_size_in_the_mean() -> None:
    """The remaining values are larger, so the mean over many passes is the same as without dropout."""
    torch.manual_seed(0)
    encoder, frames = Encoder(ENCODER).train(), torch.randn(1, 1, ENCODER.width)
    add_dropout(encoder, 0.5)
    part = next(module for module in encoder.modules() if isinstance(module, FeedForward))
    found = torch.stack([part(frames) for _ in range(2000)]).mean(0)
    torch.testing.assert_close(found, part.eval()(frames), atol=0.05, rtol=0.2)
