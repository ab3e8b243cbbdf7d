"""Noise for training and noise for measuring."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamer.training.activity.background_sounds import BackgroundSounds, held_out
from streamer.training.data.corpus import Corpus, CorpusError, Utterance, write_corpus
from tests.training.activity.prepared_tones import SAMPLES


def test_pieces_of_one_recording_are_on_one_side() -> None:
    """All pieces of one source are either for training or for measuring."""
    assert held_out("esc10-003_-_Sea_waves-5-213077-A-0.opus") == held_out("esc10-003_-_Sea_waves-5-213077-B-0.opus")
    assert held_out("gsc_background-running_tap-0.opus") == held_out("gsc_background-running_tap-2.opus")
    sides = [held_out(f"esc10-003_-_Sea_waves-5-{number}-A-0.opus") for number in range(500)]
    assert 50 < sum(sides) < 150


def test_too_little_noise_is_an_error(work: Path) -> None:
    """Noise that cannot be divided into a part for training and one for measuring is refused."""
    noise = [(Utterance("rain.wav", 0, 0, "noise", "", ""), np.ones(16000, np.int16))]
    write_corpus(work, "noise", noise)
    only = held_out("rain.wav")
    with pytest.raises(CorpusError, match="too little"):
        BackgroundSounds(Corpus(work, "noise"), 1, 1, SAMPLES, measuring=not only)
