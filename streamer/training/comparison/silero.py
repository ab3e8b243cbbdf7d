"""Runs silero-vad, a detector of speech that is not ours, on the same sounds. Its package is not a dependency of ours.

pip install --no-deps --target FOLDER silero-vad==6.2.3
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from streamer.training.activity.speech_events import SpeechEvent
from streamer.training.data.corpus import SAMPLE_RATE, Samples

VERSION = "6.2.3"
WINDOW = 512  # samples that it reads at a time
# As long as with ours. Everything else is the default of the package.
SILENCE_MS = 480


class SileroError(Exception):
    """The package cannot be used. The message says why."""


class Silero:
    """The detector, with the package's own way to turn probabilities into starts and ends."""

    def __init__(self, folder: Path) -> None:
        """`folder`: where the package lies."""
        if not (folder / f"silero_vad-{VERSION}.dist-info").is_dir():
            raise SileroError(f"{folder} lacks silero-vad: pip install --no-deps --target FOLDER silero-vad=={VERSION}")
        sys.path.append(str(folder))
        try:
            import silero_vad  # type: ignore[import-not-found]
        except ImportError as error:
            raise SileroError(f"silero-vad cannot be imported: {error}") from error
        finally:
            sys.path.remove(str(folder))
        model = silero_vad.load_silero_vad()
        self._iterator: Any = silero_vad.VADIterator(model, min_silence_duration_ms=SILENCE_MS)

    def events(self, recordings: Sequence[Samples]) -> list[list[SpeechEvent]]:
        """The speech events of these recordings."""
        return [self._events(recording) for recording in recordings]

    def told(self, recording: Samples) -> None:
        """Nothing: it decides nothing about words."""

    def _events(self, recording: Samples) -> list[SpeechEvent]:
        self._iterator.reset_states()
        audio = torch.from_numpy(recording).float() / 32768
        found: list[SpeechEvent] = []
        for end in range(WINDOW, len(audio) + 1, WINDOW):
            for state, sample in (self._iterator(audio[end - WINDOW : end]) or {}).items():
                found.append(SpeechEvent(state, _ms(sample), _ms(end)))
        if len(found) % 2:  # the end of the audio is an end of speech, as with ours
            found.append(SpeechEvent("end", _ms(len(audio)), _ms(len(audio))))
        return found


def _ms(samples: int) -> int:
    return samples * 1000 // SAMPLE_RATE
