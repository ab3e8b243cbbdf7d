"""Makes the speech of sessions. Every word shows which voice says it and at which position.

The exact model recognises these words exactly. So lost words, doubled words and words of other sessions can be
recognised.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray

from streamer.audio.sample_converter import SAMPLE_RATE
from streamer.testing.exact_speech import FRAME, say, silence

PER_MS = SAMPLE_RATE // 1000
BASE = len(ascii_lowercase)
VOICE_LETTERS, INDEX_LETTERS = 3, 2
VOICES = BASE**VOICE_LETTERS
MOST_WORDS = BASE**INDEX_LETTERS
# Voices with consecutive numbers have very different letters, so an altered word is not taken for another voice's.
_STRIDE = 7919
PAUSES_MS = (0, 0, 0, 55, 310, 640, 1090, 2411)


@dataclass(frozen=True)
class SpokenWord:
    """A word, and its times in the audio."""

    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Speech:
    """The audio of one voice, its words, and the positions between words (in samples), where a flush splits no word."""

    voice: int
    audio: NDArray[np.int16]
    words: tuple[SpokenWord, ...]
    gaps: tuple[int, ...]


def word(voice: int, index: int) -> str:
    """Return the word that this voice says at this index."""
    return _letters(voice * _STRIDE % VOICES, VOICE_LETTERS) + _letters(index % MOST_WORDS, INDEX_LETTERS)


def origin(text: str) -> tuple[int, int] | None:
    """Return the voice and the index of a word; None if no voice says it."""
    if len(text) != VOICE_LETTERS + INDEX_LETTERS or not set(text) <= set(ascii_lowercase):
        return None
    number = _number(text[:VOICE_LETTERS])
    return number * pow(_STRIDE, -1, VOICES) % VOICES, _number(text[VOICE_LETTERS:])


def draw_speech(voice: int, words: int, rng: random.Random, pauses_ms: Sequence[int] = PAUSES_MS) -> Speech:
    """Make speech with this many words and random pauses between them."""
    parts = [silence(rng.choice((0, 37, 900)))]
    for index in range(words):
        parts += [say(word(voice, index)), silence(rng.choice(pauses_ms))]
    ends = list(accumulate(len(part) for part in parts))
    spoken_words = []
    for index in range(words):
        start, end = ends[2 * index], ends[2 * index + 1]
        # The silence after the last letter and the space do not belong to the word.
        spoken_words.append(SpokenWord(word(voice, index), start // PER_MS, (end - 4 * FRAME) // PER_MS))
    return Speech(voice, np.concatenate(parts), tuple(spoken_words), tuple(ends[1 : 2 * words : 2]))


def _letters(number: int, count: int) -> str:
    letters = ""
    for _ in range(count):
        number, rest = divmod(number, BASE)
        letters = ascii_lowercase[rest] + letters
    return letters


def _number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * BASE + ascii_lowercase.index(letter)
    return number
