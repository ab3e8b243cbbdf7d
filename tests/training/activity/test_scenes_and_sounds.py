"""Sounds that are no speech, scenes made of them and speech, and a head that learns from these."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from scripts.measure import activity
from scripts.train import train_activity
from streamer.training.activity.listening import listen
from streamer.training.activity.scenes import Background, Stage, Voices, held_out, speech_spans
from streamer.training.activity.sounds import KINDS
from streamer.training.data.alignment import Alignment
from streamer.training.data.corpus import Corpus, CorpusError, Utterance, write_corpus

SECONDS = 2.56
SAMPLES = int(SECONDS * 16000)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Loud tones that pass for speech, between 400 and 1600 ms of 2 s, and noise."""
    dice = np.random.default_rng(0)
    tone = np.zeros(32000)
    tone[6400:25600] = 8000 * np.sin(np.arange(19200) * 0.3)
    spoken = [(Utterance(f"u{i}", 0, 0, "x", "s", "a"), (tone / (i + 1)).astype(np.int16)) for i in range(3)]
    noise = [
        (Utterance(f"{kind}.wav", 0, 0, "noise", "", ""), dice.integers(-99, 99, 16000).astype(np.int16))
        for kind in ("rain", "fire", "sea", "wind", "clock", "dog", "saw", "tap")
    ]
    write_corpus(tmp_path, "noise", noise)
    for name in ("train", "dev"):
        write_corpus(tmp_path, name, spoken)
        line = {"aligned": True, "score": 0, "words": [], "phones": [("AH", 400, 500, 0), ("K", 900, 700, 0)]}
        text = "".join(json.dumps({"name": f"u{i}", **line}) + "\n" for i in range(3))
        (tmp_path / f"{name}.phones.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def stage(work: Path) -> Stage:
    return Stage(Voices.read(work, "train"), Background(Corpus(work, "noise"), 1, 1, SAMPLES), SAMPLES)


@pytest.mark.parametrize("kind", KINDS)
def test_sounds_are_the_same_for_the_same_seed(kind: str) -> None:
    """Each kind gives finite sound with a peak of 1, another for another seed."""
    first, again, other = (KINDS[kind](np.random.default_rng(seed), SAMPLES) for seed in (3, 3, 4))
    assert first.dtype == np.float32
    assert len(first) == SAMPLES
    assert np.abs(first).max() == pytest.approx(1, abs=1e-3)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_short_pauses_are_speech() -> None:
    """Phones less than 200 ms apart are one stretch of speech."""
    phones = [("A", 100, 100, 0), ("B", 350, 50, 0), ("C", 600, 100, 1)]
    assert speech_spans(Alignment("u", True, 0.0, [], phones)) == [(100, 400), (600, 700)]


def test_pieces_of_one_recording_are_on_one_side() -> None:
    """What is measured with was not trained with, nor another piece of the same source."""
    assert held_out("esc10-003_-_Sea_waves-5-213077-A-0.opus") == held_out("esc10-003_-_Sea_waves-5-213077-B-0.opus")
    assert held_out("gsc_background-running_tap-0.opus") == held_out("gsc_background-running_tap-2.opus")
    sides = [held_out(f"esc10-003_-_Sea_waves-5-{number}-A-0.opus") for number in range(500)]
    assert 50 < sum(sides) < 150


def test_scenes_say_where_speech_is(work: Path) -> None:
    """Every scene has a share of speech for each frame; some have none; all are as a service hears them."""
    drawn, dice = stage(work), np.random.default_rng(1)
    scenes = [drawn.scene(dice) for _ in range(30)]
    assert all(scene.samples.dtype == np.int16 and len(scene.speech) == 64 for scene in scenes)
    assert any(not scene.speech.any() for scene in scenes)
    assert any(0 < scene.speech.mean() < 1 for scene in scenes)


def test_too_little_noise_is_an_error(work: Path) -> None:
    """Noise that can't be divided into a part to train with and one to measure with is refused."""
    noise = [(Utterance("rain.wav", 0, 0, "noise", "", ""), np.ones(16000, np.int16))]
    write_corpus(work, "noise", noise)
    only = held_out("rain.wav")
    with pytest.raises(CorpusError, match="too little"):
        Background(Corpus(work, "noise"), 1, 1, SAMPLES, measuring=not only)


def test_a_head_learns_and_is_measured(work: Path) -> None:
    """A moment of training gives a head whose events can be measured."""
    torch.set_num_threads(1)
    head = train_activity.train(stage(work), 0.01, 2, 4e-3, 1).requires_grad_(False)
    assert head.mean.any()
    quiet = activity.openings(head, "zeros", [np.zeros(16000 * 6, np.int16)] * 2, 320)
    assert quiet.minutes == 0.2
    events = listen(head, [np.zeros(16000, np.int16)], 320)
    assert len(events) == 1
