"""Finds out whether a stereo recording has a speaker on each side, like a call. Pure.

Such a recording should be recognised channel by channel: mixed, two people who speak at once are one noise. Each side
of a call is much quieter than the other most of the time, once this one and once that one. The two sides of a room or
of music have about the same level.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamer.audio.decoder import FloatSamples

_FRAME_S: Final = 0.05
_LOUD: Final = 10 ** (-45 / 20)  # of full scale; a quieter frame has no speech
_APART: Final = 10 ** (-12 / 20)  # the other side is at most this loud while one side speaks
_ENOUGH_S: Final = 3.0  # of speech on each side alone
_SHARE: Final = 0.6  # of the loud frames are loud on one side alone


class TwoVoices:
    """Listens to the two channels of a recording."""

    def __init__(self, sample_rate: int) -> None:
        self._frame = max(1, round(_FRAME_S * sample_rate))
        self._rest: FloatSamples = np.zeros((0, 2), np.float32)
        self._alone = np.zeros(2, np.int64)  # the frames in which one side is loud alone
        self._loud = 0

    def add(self, samples: FloatSamples) -> None:
        """Add samples [frames, 2]."""
        samples = np.concatenate([self._rest, samples])
        count = len(samples) // self._frame
        self._rest = samples[count * self._frame :]
        frames = samples[: count * self._frame].reshape(count, self._frame, 2)
        levels = np.sqrt(np.mean(np.square(frames), axis=1))
        loud = levels > _LOUD
        self._loud += int(np.count_nonzero(loud.any(axis=1)))
        self._alone += np.count_nonzero(loud & (levels[:, ::-1] < levels * _APART), axis=0)

    @property
    def found(self) -> bool:
        """Whether somebody speaks on each side, and mostly one after the other."""
        enough = bool(np.all(self._alone * _FRAME_S >= _ENOUGH_S))
        return enough and int(self._alone.sum()) >= _SHARE * self._loud
