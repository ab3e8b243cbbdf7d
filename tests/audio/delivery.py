"""Audio as PortAudio delivers it to a microphone."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.audio.microphone import Microphone

sounddevice = pytest.importorskip("sounddevice", reason="it is not installed: pip install 'streamer-asr[mic]'")

FINE, OVERFLOW = sounddevice.CallbackFlags(0), sounddevice.CallbackFlags(2)


def deliver(heard: Microphone, seconds: float, loudness: float = 0.5, status: object = FINE) -> None:
    """A chunk of audio as PortAudio delivers it."""
    frames = round(seconds * heard.device.sample_rate)
    samples = np.full((frames, 1), loudness, np.float32)
    heard._on_audio(samples, frames, None, status)
