"""Sound that every browser plays, made of recordings."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamer.audio.playable import mp3_of
from streamer.audio.recordings import AudioError
from tests.project import SAMPLES


def test_a_recording_becomes_small_and_keeps_its_length() -> None:
    """Any recording becomes MP3 of 32 kbit/s. A word stays where it was, within a
    tenth of a second."""
    content = mp3_of(str(SAMPLES / "talk.flac"))
    sound, rate = soundfile.read(io.BytesIO(content))
    recording, _ = soundfile.read(SAMPLES / "talk.flac")
    assert rate == 16_000
    assert abs(len(sound) - len(recording)) < rate // 10
    assert len(content) < 1.1 * 4000 * len(recording) / rate
    length = 8 * rate
    spectra = [np.fft.rfft(each[:length], 2 * length) for each in (sound, recording)]
    late = int(np.argmax(np.fft.irfft(spectra[0] * np.conj(spectra[1]))))
    assert 0 <= late < 0.08 * rate


def test_what_is_no_recording(tmp_path: Path) -> None:
    """A damaged file raises the error that reading it raises."""
    (tmp_path / "a.wav").write_bytes(b"nothing that is sound")
    with pytest.raises(AudioError):
        mp3_of(str(tmp_path / "a.wav"))
