"""Examples of speech over other sounds, where an alignment has speech, and a head that learns from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.engine.networks.acoustic_network import read_activity
from tests.project import BUNDLE
from tests.samples import pcm
from tests.workshop.activity.prepared_tones import SAMPLES, example_source
from workshop.activity.examples import AlignedSpeech, speech_spans, train
from workshop.activity.measurement import MeasuredDetector, openings, starts
from workshop.data.alignment import Alignment
from workshop.data.corpus import Corpus

FRAMES = (640, 768, 384)
"""The samples of a frame: those of the shipped model, and of encoders that read samples."""


@pytest.mark.parametrize("frame", FRAMES)
def test_examples_say_where_speech_is(work: Path, frame: int) -> None:
    """Every example has a share of speech for each frame; some have none; all sound as a service may hear them."""
    source, rng = example_source(work, frame), np.random.default_rng(1)
    examples = [source.draw(rng) for _ in range(30)]
    frames = SAMPLES // frame
    assert all(example.samples.dtype == np.int16 and len(example.speech) == frames for example in examples)
    assert all(len(example.samples) == frames * frame for example in examples)
    assert any(not example.speech.any() for example in examples)
    assert any(0 < example.speech.mean() < 1 for example in examples)


def test_short_pauses_are_speech() -> None:
    """Phones less than 200 ms apart belong to the same stretch of speech."""
    phones = [("A", 100, 100, 0), ("B", 350, 50, 0), ("C", 600, 100, 1)]
    assert speech_spans(Alignment("u", True, 0.0, [], phones)) == [(100, 400), (600, 700)]


@pytest.mark.parametrize(("frame", "step_ms"), [(640, 320), (768, 336), (384, 312)])
def test_a_head_learns_and_is_measured(work: Path, frame: int, step_ms: int) -> None:
    """After a moment of training, the events of the head can be measured, in the frames and steps of its encoder."""
    torch.set_num_threads(1)
    head = train(example_source(work, frame), 0.01, 2, 4e-3, 1, print).requires_grad_(False)
    assert head.mean.any()
    detector = MeasuredDetector(head, frame, step_ms)
    quiet = openings(detector, "zeros", [np.zeros(16000 * 6, np.int16)] * 2)
    assert quiet.minutes == 0.2
    assert len(detector.probabilities(np.zeros(16000, np.int16))) == 16000 // frame
    events = detector.events([np.zeros(16000, np.int16)])
    assert len(events) == 1


def test_times_are_those_of_the_frames(work: Path) -> None:
    """A head of the shipped model hears the same speech in longer frames, at about the same time."""
    head, speech = read_activity(BUNDLE), AlignedSpeech.read(work, "dev")
    assert head is not None
    head.eval().requires_grad_(False)
    spoken = np.frombuffer(pcm("talk.flac", 6.0), np.int16)
    first = {}
    for frame, step_ms in ((640, 320), (768, 336)):
        [events] = MeasuredDetector(head, frame, step_ms).events([spoken])
        first[frame] = next(event.at_ms for event in events if event.state == "start")
        assert first[frame] % (frame / 16) == 0
        figures = starts(MeasuredDetector(head, frame, step_ms), speech, Corpus(work, "noise"), "clean", 1)
        assert figures.starts > 3
    assert first[768] == pytest.approx(first[640], abs=200)


def test_training_goes_on_with_a_head(work: Path) -> None:
    """A head that was trained before keeps what its features were normalised by, and changes otherwise."""
    torch.set_num_threads(1)
    begun = train(example_source(work), 0.002, 2, 4e-3, 1, print)
    before = {name: tensor.clone() for name, tensor in begun.state_dict().items()}
    after = train(example_source(work), 0.002, 2, 4e-3, 2, print, begun).state_dict()
    kept = {name for name, tensor in before.items() if torch.equal(tensor, after[name])}
    assert kept == {"mean", "deviation"}
