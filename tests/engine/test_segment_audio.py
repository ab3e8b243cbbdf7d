"""The steps into which the audio of a stream is divided."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.engine.segment_audio import SegmentAudio, TimeScale

STEP = 640


@pytest.mark.parametrize("ahead", [500, 640, 920, 2000])
@pytest.mark.parametrize("length", [170, 640, 1300, 2100])
def test_what_is_ahead_of_a_step_follows_it(ahead: int, length: int) -> None:
    """The steps at the end are those of a single sound, however much of it the model reads with each of them."""
    audio = SegmentAudio(TimeScale(16_000, 160), STEP, ahead)
    sound = np.random.default_rng(0).integers(-9000, 9000, length).astype(np.int16)
    audio.append(sound)
    steps = []
    while (step := audio.next_step(flushing=True)) is not None:
        steps.append(step)
        audio.advance()
    assert len(steps) * STEP >= length + 16_000 * 320 // 1000
    whole = np.concatenate([*(step[:STEP] for step in steps), steps[-1][STEP:]])
    assert (whole[:length] == sound).all()
    for number, step in enumerate(steps):
        assert (step == whole[number * STEP :][: STEP + ahead]).all()
