"""Reads a whole segment: its text, its tokens with their log-probabilities, and whether it ended by itself.

There are two families of readers, Moonshine and Whisper. Each has a network that hears sound and writes tokens, and
pieces that make text of them. Everything else is the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from streamer.engine.reader.differences import OtherWords, as_written, characters, other_words
from streamer.engine.reader.graph_files import reader_graphs
from streamer.engine.reader.network import Change, Network, TokenRun, changed
from streamer.engine.reader.pieces import PIECES_FILE, Pieces, PiecesError, load_pieces
from streamer.engine.reader.reading import USUAL, Difference, Reading, ReadingOptions, TimedWord, Token
from streamer.engine.reader.reading_words import written_words
from streamer.engine.reader.whisper import load_whisper
from streamer.models.whisper_folder import holds_whisper

RATE: Final = 16_000
TOKENS_BESIDE: Final = 8  # more than so many a second, for short segments
LONGEST: Final = 30 * RATE  # samples; longer segments are cut. Shorter parts have more errors, by a tenth at 10 s
_SHORTEST: Final = RATE // 20  # samples; there is no word in less
_EARLIEST_CUT: Final = LONGEST // 2
# A part in which more is said than a network writes, which Whisper does up to 224 tokens, is read in two parts. Nobody
# says so much in less than this.
_SHORTEST_DIVIDED: Final = 8 * RATE
_SIGNS: Final = "\u266a\u266b\u266c\u00a9"
_FIRST_FOREIGN: Final = "\u0250"  # the first character after the letters of Latin script
_QUIET: Final = RATE // 50  # the length of what is compared to find the quietest place


class SoundReading(Protocol):
    """A part of a segment as a network has read it."""

    run: TokenRun

    @property
    def language(self) -> str:
        """What was spoken; empty if the network has one language."""

    @property
    def words(self) -> tuple[TimedWord, ...]:
        """The words with their times; none if the network does not know them."""

    def compare(self, changes: Sequence[Change]) -> list[NDArray[np.float32]]:
        """Return the log-probability of each token of these changes, after the tokens before them."""


class SoundNetwork(Protocol):
    """What hears sound and writes tokens."""

    @property
    def width(self) -> int:
        """The numbers of a frame, which tell readers apart."""

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of the languages that it reads."""

    @property
    def tokens_a_second(self) -> float:
        """The most tokens that a second of speech has."""

    def read(self, samples: NDArray[np.float32], most_tokens: int, options: ReadingOptions) -> SoundReading:
        """Read the most likely tokens in a segment of sound between -1 and 1."""


class Reader:
    """Reads segments one by one. What it reads depends on nothing but the segment."""

    def __init__(
        self, network: SoundNetwork, pieces: Pieces, refuses: Callable[[str], bool] = lambda character: False
    ) -> None:
        """`refuses`: whether text with this character is no speech."""
        self._network, self._pieces, self._refuses = network, pieces, refuses

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of the languages that it reads."""
        return self._network.languages

    def read(
        self,
        samples: NDArray[np.int16],
        pauses: Sequence[tuple[int, int]] = (),
        words: Sequence[str] = (),
        options: ReadingOptions = USUAL,
    ) -> Reading:
        """Read a segment at 16 kHz. If it is too long, it is cut, in these pauses if there are any.

        The reading is compared with these words, if they are given.
        """
        sound = samples.astype(np.float32) / 32_768
        spans = [span for span in parts(sound, pauses) if span[1] - span[0] >= _SHORTEST]
        placed = [each for start, end in spans for each in self._read_whole(sound, start, end, options)]
        read = [part for _, part in placed]
        runs = [part.run for part in read]
        tokens = [token for run in runs for token in self._tokens(run)]
        chances = [chance for run in runs for chance in run.log_probabilities]
        complete = all(run.complete for run in runs)
        return Reading(
            text="".join(token.text for token in tokens).strip(),
            tokens=tuple(tokens),
            log_probability=float(np.mean(chances)) if chances else 0.0,
            complete=complete,
            width=self._network.width,
            differences=tuple(self._differences(read, tokens, words)) if complete and words else (),
            language=next((part.language for part in read), ""),
            words=tuple(_timed_words(read, [start for start, _ in placed])) if options.times else (),
        )

    def _read_whole(
        self, sound: NDArray[np.float32], start: int, end: int, options: ReadingOptions
    ) -> Iterator[tuple[int, SoundReading]]:
        """Yield the readings of this part of a segment, each with its start.

        If the reader has the only words, a part with more than it writes at once is divided, so that none is lost.
        """
        part = self._read(sound[start:end], options)
        if not (options.times and part.run.limited and end - start >= _SHORTEST_DIVIDED):
            yield start, part
            return
        third = (end - start) // 3
        cut = start + third + _quietest(sound[start + third : end - third])
        yield from self._read_whole(sound, start, cut, options)
        yield from self._read_whole(sound, cut, end, options)

    def _read(self, sound: NDArray[np.float32], options: ReadingOptions) -> SoundReading:
        most_tokens = int(self._network.tokens_a_second * len(sound) / RATE) + TOKENS_BESIDE
        read = self._network.read(sound, most_tokens, options)
        if any(map(self._refuses, "".join(self._pieces.texts(read.run.tokens)))):
            read.run = TokenRun((), read.run.log_probabilities, complete=False)
        return read

    def _tokens(self, run: TokenRun) -> list[Token]:
        texts = self._pieces.texts(run.tokens)
        if texts and not texts[0].startswith(" "):
            texts[0] = f" {texts[0]}"
        return [Token(*pair) for pair in zip(texts, run.log_probabilities, strict=False)]

    def _differences(
        self, read: Sequence[SoundReading], tokens: Sequence[Token], words: Sequence[str]
    ) -> Iterator[Difference]:
        """Yield the differences from these words, and how likely the words are. Each part is compared in one step."""
        written = written_words(tokens, set(words).__contains__)
        starts = [0, *accumulate(len(token.text) for token in tokens)]  # of the characters of each token
        others = [(one.words, *characters(written, one), self._tokens_of(one)) for one in other_words(written, words)]
        before = 0  # tokens of the parts before
        for number, part in enumerate(read, 1):
            line, after = part.run.tokens, before + len(part.run.tokens)
            own: list[tuple[Difference, Change, int]] = []
            for said, start, end, new in others:
                first = bisect_right(starts, start) - 1 - before
                last = first if start == end else bisect_left(starts, end) - before
                if new is None or not 0 <= first <= last <= len(line) or (first == len(line) and number < len(read)):
                    continue
                change, read_until = changed(line, first, last, new)
                likely = min(0.0, sum(part.run.log_probabilities[first:last]))
                own.append((Difference(start, end, said, likely), change, read_until))
            chances = part.compare([change for _, change, _ in own])
            for (difference, change, read_until), chance in zip(own, chances, strict=True):
                former = sum(part.run.log_probabilities[change.place : read_until])
                yield replace(difference, gain=float(chance.sum()) - former)
            before = after

    def _tokens_of(self, other: OtherWords) -> list[int] | None:
        try:
            return self._pieces.tokens(as_written(other))
        except PiecesError:  # the reader cannot write this
            return None


def _timed_words(read: Sequence[SoundReading], starts: Sequence[int]) -> Iterator[TimedWord]:
    """Yield the words of these parts with their times in the segment, where these parts start."""
    for part, start in zip(read, starts, strict=True):
        start_ms = start * 1000 // RATE
        for word in part.words:
            yield replace(word, start_ms=word.start_ms + start_ms, end_ms=word.end_ms + start_ms)


def parts(sound: NDArray[np.float32], pauses: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield where the parts of a segment start and end, none longer than LONGEST."""
    start = 0
    while len(sound) - start > LONGEST:
        earliest, latest = start + _EARLIEST_CUT, start + LONGEST
        fitting = [
            (end - begin, (begin + end) // 2) for begin, end in pauses if earliest <= (begin + end) // 2 <= latest
        ]
        cut = max(fitting)[1] if fitting else earliest + _quietest(sound[earliest:latest])
        yield start, cut
        start = cut
    yield start, len(sound)


def _quietest(sound: NDArray[np.float32]) -> int:
    count = len(sound) // _QUIET
    energy = (sound[: count * _QUIET].reshape(count, _QUIET) ** 2).mean(axis=1)
    return int(energy.argmin()) * _QUIET + _QUIET // 2


def _is_foreign(character: str) -> bool:
    """Return whether a character is a sign for music and the like, or a letter of another script.

    That is what Moonshine writes for nearly half of noise and music, and practically never for English speech.
    """
    return character in _SIGNS or (character.isalpha() and character >= _FIRST_FOREIGN)


def load_reader(folder: Path, *, threads: int = 1, whole: bool = False) -> Reader:
    """Return the reader in this folder. `whole`: Whisper hears 30 s for each segment, as it was taught."""
    if holds_whisper(folder):
        return Reader(*load_whisper(folder, threads=threads, whole=whole))
    return Reader(Network(reader_graphs(folder), threads=threads), load_pieces(folder / PIECES_FILE), _is_foreign)
