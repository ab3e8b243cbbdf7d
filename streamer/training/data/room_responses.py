"""Recorded impulse responses of rooms: what a microphone hears of a click."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.training.data.corpus import SAMPLE_RATE, Corpus

Response = npt.NDArray[np.float64]
"""Samples from -1 to 1, from the direct sound on."""

LIVEABLE_SECONDS = 1.3
"""Rooms that ring longer are halls and churches, where nobody dictates."""


def liveable_responses(rooms: Corpus) -> list[Response]:
    """Return the responses of all rooms but halls and churches."""
    responses = [_from_direct_sound(rooms.samples(room) / 32768) for room in rooms.utterances]
    return [response for response in responses if ringing_seconds(response) < LIVEABLE_SECONDS]


def ringing_seconds(response: Response) -> float:
    """Return how long a room takes to fall by 60 dB, estimated from its fall between -5 and -25 dB."""
    left = np.cumsum(response[::-1] ** 2)[::-1] / np.sum(response**2)
    return 3 * float(np.argmax(left < 10**-2.5) - np.argmax(left < 10**-0.5)) / SAMPLE_RATE


def _from_direct_sound(recorded: Response) -> Response:
    # Otherwise the words would come later than they were said.
    return recorded[int(np.abs(recorded).argmax()) :]
