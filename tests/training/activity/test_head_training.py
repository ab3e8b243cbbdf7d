"""An activity head learns, and its events are measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from streamer.training.activity.head_training import train
from streamer.training.activity.measurement import MeasuredDetector, openings
from streamer.training.activity.speech_events import speech_events
from tests.training.activity.prepared_tones import example_source


def test_a_head_learns_and_is_measured(work: Path) -> None:
    """After a moment of training, the events of the head can be measured."""
    torch.set_num_threads(1)
    head = train(example_source(work), 0.01, 2, 4e-3, 1, print).requires_grad_(False)
    assert head.mean.any()
    quiet = openings(MeasuredDetector(head, 320), "zeros", [np.zeros(16000 * 6, np.int16)] * 2)
    assert quiet.minutes == 0.2
    events = speech_events(head, [np.zeros(16000, np.int16)], 320)
    assert len(events) == 1


def test_training_goes_on_with_a_head(work: Path) -> None:
    """A head that was trained before keeps what its features were normalised by, and changes otherwise."""
    torch.set_num_threads(1)
    begun = train(example_source(work), 0.002, 2, 4e-3, 1, print)
    before = {name: tensor.clone() for name, tensor in begun.state_dict().items()}
    after = train(example_source(work), 0.002, 2, 4e-3, 2, print, begun).state_dict()
    kept = {name for name, tensor in before.items() if torch.equal(tensor, after[name])}
    assert kept == {"mean", "deviation"}
