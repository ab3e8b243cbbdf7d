"""Finds out whether a recording is a call: two channels with a voice each, which speak in turn. Pure.

Such a recording should be recognised channel by channel: mixed, two people who speak at once are one noise. Each side
of a call is much quieter than the other most of the time, once this one and once that one. The two sides of a room or
of music have about the same level. The page has the same rule, in `streamer/web/decoding/voices.js`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from streamer.audio.decoder import FloatSamples

_FRAMES_A_SECOND: Final = 10
# What is quieter than this part of the full power, or of the loudest of its channel, is not a voice.
_QUIETEST: Final = 1e-6
_QUIET: Final = 1e-3
_ALONE: Final = 10  # a channel speaks alone while it has this many times the power of the other one
# How much of the speech is that of one voice alone, at least: of each, and of both.
_EACH: Final = 0.1
_BOTH: Final = 0.6
_FEWEST: Final = _FRAMES_A_SECOND  # each voice must be alone for a second
_MOST_FRAMES: Final = 120 * _FRAMES_A_SECOND  # this much of the beginning of a recording is enough to find out


class TwoVoices:
    """Listens to the two channels of a recording."""

    def __init__(self, sample_rate: int) -> None:
        self._size = max(1, int(sample_rate / _FRAMES_A_SECOND + 0.5))  # rounds like the page, which is JavaScript
        self._rest: FloatSamples = np.zeros((0, 2), np.float32)
        self._powers: list[npt.NDArray[np.float64]] = []  # of both channels in each frame
        self._count = 0

    def add(self, samples: FloatSamples) -> None:
        """Add samples [frames, 2]."""
        room = _MOST_FRAMES - self._count
        if room <= 0:
            return
        samples = np.concatenate([self._rest, samples])
        count = min(room, len(samples) // self._size)
        self._rest = samples[count * self._size :]
        frames = samples[: count * self._size].reshape(count, self._size, 2)
        self._powers.append(np.mean(np.square(frames, dtype=np.float64), axis=1))
        self._count += count

    @property
    def apart(self) -> bool:
        """Whether each channel has a voice of its own, and they mostly speak one after the other."""
        if not self._count:
            return False
        powers = np.concatenate(self._powers)
        loudest = np.sort(powers, axis=0)[int(0.95 * len(powers))]
        speech = powers[np.any(powers >= np.maximum(_QUIETEST, _QUIET * loudest), axis=1)]
        left, right = np.count_nonzero(speech > _ALONE * speech[:, ::-1], axis=0)
        return bool(min(left, right) >= max(_FEWEST, _EACH * len(speech)) and left + right >= _BOTH * len(speech))
