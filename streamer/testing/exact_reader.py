"""A reader that reads letters from the level of the audio, and the pass that gives its words their times.

Its words are those that an exact model hears. So a word that was lost, or read in another stream, shows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from numpy.typing import NDArray

from streamer.engine.language.lexicon import Lexicon
from streamer.engine.reader.alignment import Aligner
from streamer.engine.reader.combination import Mixture, Mixtures
from streamer.engine.reader.reader_pass import ReaderPass
from streamer.engine.reader.reading import USUAL, Reading, ReadingOptions, TimedWord, Token
from streamer.engine.reader.segment_reader import SegmentReader
from streamer.engine.search.beam_search import BOUNDARY
from streamer.testing.exact_speech import FRAME, LEVEL, UNITS

if TYPE_CHECKING:
    from streamer.engine.language.letter_to_sound import LetterToSound

# The units of the exact model, as phones: a space is the boundary of words.
PHONE_UNITS: Final = [BOUNDARY if unit == " " else unit for unit in UNITS]
BELIEVED: Final = Mixture(-5.0)  # the words of a reading are taken
SAMPLE_RATE: Final = 16_000
_LIKELY: Final = -0.2  # the log-probability of each word


class ExactReader:
    """Reads what was said in a segment, with a capital and a full stop, as readers write."""

    def __init__(self, slowness: float = 0.0, languages: Sequence[str] = ("en",)) -> None:
        """`slowness`: the seconds for a second of audio. `languages`: the codes of those that it claims to read."""
        self._slowness, self.languages = slowness, tuple(languages)

    def read(
        self,
        samples: NDArray[np.int16],
        pauses: Sequence[tuple[int, int]] = (),
        words: Sequence[str] = (),
        options: ReadingOptions = USUAL,
    ) -> Reading:
        """Return the words of a segment."""
        if self._slowness:
            time.sleep(self._slowness * len(samples) / SAMPLE_RATE)
        line = letters_of(samples)
        text = line.capitalize() + "." if line else ""
        tokens = tuple(Token(f" {word}", _LIKELY) for word in text.split())
        timed = timed_letters(samples) if options.times else ()
        return Reading(text, tokens, _LIKELY if line else 0.0, words=tuple(timed))


class SpelledLetters:
    """Pronounces every word by its letters."""

    def pronounce(self, word: str, number: int = 1) -> list[list[str]]:
        """Return the one pronunciation of a word; none if a character of it is no letter of the exact model."""
        return [list(word)] if set(word) <= set(UNITS) else []


def exact_reader_pass(reader: SegmentReader) -> ReaderPass:
    """Return a pass that believes this reader, for a recogniser with the exact model."""
    a = PHONE_UNITS.index("a")
    lexicon = Lexicon.build([(0, (a,))], np.zeros(1, dtype=np.float32))  # it needs a word; all others are spelled
    aligner = Aligner(lexicon, ["a"], PHONE_UNITS, cast("LetterToSound", SpelledLetters()))
    return ReaderPass(reader, aligner, None, Mixtures({0: BELIEVED}))


def letters_of(samples: NDArray[np.int16]) -> str:
    """Return what was said in these samples: a letter is a level of two frames, wherever frames begin."""
    return " ".join("".join(letter for letter, _, _ in _letters(samples)).split())


def timed_letters(samples: NDArray[np.int16]) -> Iterator[TimedWord]:
    """Yield the words in these samples with their times."""
    word, start_ms, end_ms = "", 0, 0
    for letter, start, end in [*_letters(samples), (" ", 0, 0)]:
        if letter != " ":
            start_ms = start_ms if word else start * 1000 // SAMPLE_RATE
            word, end_ms = word + letter, end * 1000 // SAMPLE_RATE
        elif word:
            yield TimedWord(word, start_ms, end_ms, math.exp(_LIKELY))
            word = ""


def _letters(samples: NDArray[np.int16]) -> Iterator[tuple[str, int, int]]:
    """Yield the letters in these samples, and where each starts and ends."""
    units = (np.abs(samples.astype(np.int32)) / LEVEL).round().astype(int)
    start = 0
    for end in (np.flatnonzero(np.diff(units, append=-1)) + 1).tolist():
        if 0 < units[start] < len(UNITS) and end - start > FRAME // 2:
            yield UNITS[units[start]], start, end
        start = end
