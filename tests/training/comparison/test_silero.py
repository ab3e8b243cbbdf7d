"""The comparison with silero-vad needs its package, and says how to get it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamer.training.activity.speech_events import SpeechEvent
from streamer.training.comparison.silero import VERSION, WINDOW, Silero, SileroError

# Stands in for the package: speech starts in a loud window and ends in the next quiet one.
PACKAGE = """
def load_silero_vad():
    return None

class VADIterator:
    def __init__(self, model, min_silence_duration_ms):
        self.reset_states()

    def reset_states(self):
        self.loud, self.place = False, 0

    def __call__(self, window):
        loud, before = bool(window.abs().max() > 0.1), self.loud
        self.loud, self.place = loud, self.place + len(window)
        return None if loud == before else {"start" if loud else "end": self.place - len(window)}
"""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "silero_vad.py").write_text(PACKAGE)
    (tmp_path / f"silero_vad-{VERSION}.dist-info").mkdir()
    yield tmp_path
    sys.modules.pop("silero_vad", None)


def test_events_are_those_of_the_package(package: Path) -> None:
    """Its samples become milliseconds, and speech that is still going on ends with the audio."""
    loud, quiet = np.full(2 * WINDOW, 9000, np.int16), np.zeros(WINDOW, np.int16)
    found, other = Silero(package).events([np.concatenate([quiet, loud, quiet, loud]), quiet])
    assert found == [
        SpeechEvent("start", 32, 64), SpeechEvent("end", 96, 128), SpeechEvent("start", 128, 160),
        SpeechEvent("end", 192, 192),
    ]  # fmt: skip
    assert other == []


def test_a_folder_without_the_package(tmp_path: Path) -> None:
    """The message says which version to install."""
    with pytest.raises(SileroError, match=f"silero-vad=={VERSION}"):
        Silero(tmp_path)
