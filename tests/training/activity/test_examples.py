"""Examples of speech over other sounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.training.activity.prepared_tones import example_source


def test_examples_say_where_speech_is(work: Path) -> None:
    """Every example has a share of speech for each frame; some have none; all sound as a service may hear them."""
    source, rng = example_source(work), np.random.default_rng(1)
    examples = [source.draw(rng) for _ in range(30)]
    assert all(example.samples.dtype == np.int16 and len(example.speech) == 64 for example in examples)
    assert any(not example.speech.any() for example in examples)
    assert any(0 < example.speech.mean() < 1 for example in examples)
