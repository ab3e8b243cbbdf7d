"""Makes of any recording a small sound that every browser plays: MP3 of the samples that the recogniser hears.

MP3, because every browser plays it, and 32 kbit/s because that is enough for speech: 14 MB for an hour. The rate is
constant, so that a browser finds the place of a word without a table. The encoder delays the sound by 69 ms, so what
plays from a word begins just before it.
"""

from __future__ import annotations

import io
from typing import Final

import soundfile  # type: ignore[import-untyped]

from streamer.audio.audio_file import AudioFile
from streamer.audio.decoder import SAMPLE_RATE

MP3: Final = "audio/mpeg"
_COMPRESSION: Final = 0.85  # 32 kbit/s


def mp3_of(path: str) -> bytes:
    """Return the sound of a recording, with its channels mixed. Raise AudioError if it cannot be read."""
    buffer = io.BytesIO()
    with (
        AudioFile(path) as recording,
        soundfile.SoundFile(
            buffer,
            "w",
            SAMPLE_RATE,
            channels=1,
            format="MP3",
            subtype="MPEG_LAYER_III",
            compression_level=_COMPRESSION,
            bitrate_mode="CONSTANT",
        ) as sound,
    ):
        for chunk in recording.chunks():
            sound.write(chunk)
    return buffer.getvalue()
