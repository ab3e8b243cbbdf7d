"""Noise for training and for measuring, and synthetic sounds other than speech."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.workshop.activity.prepared_tones import SAMPLES
from workshop.activity.sounds import KINDS, BackgroundSounds, held_out
from workshop.data.corpus import Corpus, CorpusError, Utterance, write_corpus


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


@pytest.mark.parametrize("kind", KINDS)
def test_sounds_are_the_same_for_the_same_seed(kind: str) -> None:
    """Each kind gives finite sound with a peak of 1, and another seed gives another sound."""
    first, again, other = (KINDS[kind](np.random.default_rng(seed), SAMPLES) for seed in (3, 3, 4))
    assert first.dtype == np.float32
    assert len(first) == SAMPLES
    assert np.abs(first).max() == pytest.approx(1, abs=1e-3)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_sounds_are_the_same_in_every_process() -> None:
    """Figures that were measured with a seed can be measured again: nothing depends on the order of a set."""
    sums = f"print([float(abs(make(np.random.default_rng(5), {SAMPLES})).sum()) for make in KINDS.values()])"
    program = f"import numpy as np; from {KINDS['music'].__module__} import KINDS; {sums}"
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
