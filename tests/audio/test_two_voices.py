"""Calls, with a speaker on each channel, and other stereo recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from streamer.audio.two_voices import TwoVoices

# Levels of both channels in decibels, part after part. The page is held to the same cases.
CASES = json.loads(Path(__file__).with_name("call_cases.json").read_text(encoding="utf-8"))


def sound(case: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Two channels with these levels."""
    parts = [np.zeros((0, 2))]
    for seconds, *levels in case["parts"] * case["times"]:
        wave = np.where(np.arange(round(seconds * case["rate"])) % 2, -1.0, 1.0)
        parts.append(wave[:, None] * [0.0 if level is None else 10 ** (level / 20) for level in levels])
    return np.concatenate(parts).astype(np.float32)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_voice_on_each_side(case: dict[str, Any]) -> None:
    """Only a call is one, whichever side begins, and however the samples are divided."""
    for samples in (sound(case), sound(case)[:, ::-1]):
        for size in (len(samples) or 1, 777):
            voices = TwoVoices(case["rate"])
            for begin in range(0, len(samples), size):
                voices.add(samples[begin : begin + size])
            assert voices.apart is case["call"]
