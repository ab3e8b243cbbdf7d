"""Examples of speech over other sounds, where an alignment has speech, and a head that learns from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tests.workshop.activity.prepared_tones import example_source
from workshop.activity.examples import speech_spans, train
from workshop.activity.measurement import MeasuredDetector, openings, speech_events
from workshop.data.alignment import Alignment


def test_examples_say_where_speech_is(work: Path) -> None:
    """Every example has a share of speech for each frame; some have none; all sound as a service may hear them."""
    source, rng = example_source(work), np.random.default_rng(1)
    examples = [source.draw(rng) for _ in range(30)]
    assert all(example.samples.dtype == np.int16 and len(example.speech) == 64 for example in examples)
    assert any(not example.speech.any() for example in examples)
    assert any(0 < example.speech.mean() < 1 for example in examples)


def test_short_pauses_are_speech() -> None:
    """Phones less than 200 ms apart belong to the same stretch of speech."""
    phones = [("A", 100, 100, 0), ("B", 350, 50, 0), ("C", 600, 100, 1)]
    assert speech_spans(Alignment("u", True, 0.0, [], phones)) == [(100, 400), (600, 700)]


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
