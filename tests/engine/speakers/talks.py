"""Conversations of the two voices among the samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamer.audio.audio_file import read_audio
from tests.project import SAMPLES

WOMAN, MAN = 0, 1


def read(name: str) -> NDArray[np.int16]:
    """Return a sample recording."""
    return read_audio(SAMPLES / name)


def conversation() -> tuple[NDArray[np.int16], list[tuple[int, int, int]]]:
    """Return a conversation, and its turns: the first sample of each, the one after its last, and who speaks."""
    woman, man, pause = read("talk.flac"), read("quilter.ogg"), np.zeros(8_000, np.int16)
    parts = [(WOMAN, woman[:96_000]), (MAN, man), (WOMAN, woman[112_000:208_000]), (MAN, man[:64_000])]
    sound: list[NDArray[np.int16]] = [pause]
    turns: list[tuple[int, int, int]] = []
    for who, part in parts:
        start = sum(map(len, sound))
        turns.append((start, start + len(part), who))
        sound += [part, pause]
    return np.concatenate(sound), turns
