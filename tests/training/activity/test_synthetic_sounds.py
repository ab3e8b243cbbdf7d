"""Synthetic sounds other than speech."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from streamer.training.activity.synthetic_sounds import KINDS
from tests.training.activity.prepared_tones import SAMPLES


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
