"""Reads a whole segment: its text, its tokens with their log-probabilities, and whether it ended by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.reader.graph_files import reader_graphs
from streamer.engine.reader.network import Network, TokenRun
from streamer.engine.reader.pieces import PIECES_FILE, Pieces, load_pieces
from streamer.engine.reader.reading import Reading, Token

RATE: Final = 16_000
TOKENS_A_SECOND: Final = 6.5
TOKENS_BESIDE: Final = 8  # more than that, for short segments
LONGEST: Final = 30 * RATE  # samples; longer segments are cut. Shorter parts have more errors, by a tenth at 10 s
_SHORTEST: Final = RATE // 20  # samples; there is no word in less
_EARLIEST_CUT: Final = LONGEST // 2
_SIGNS: Final = "\u266a\u266b\u266c\u00a9"
_FIRST_FOREIGN: Final = "\u0250"  # the first character after the letters of Latin script
_QUIET: Final = RATE // 50  # the length of what is compared to find the quietest place


class Reader:
    """Reads segments one by one. What it reads depends on nothing but the segment."""

    def __init__(self, network: Network, pieces: Pieces) -> None:
        self._network, self._pieces = network, pieces

    def read(self, samples: NDArray[np.int16], pauses: Sequence[tuple[int, int]] = ()) -> Reading:
        """Read a segment at 16 kHz. If it is too long, it is cut, in these pauses if there are any."""
        sound = samples.astype(np.float32) / 32_768
        runs = [self._run(sound[start:end]) for start, end in parts(sound, pauses) if end - start >= _SHORTEST]
        tokens = [token for run in runs for token in self._tokens(run)]
        chances = [chance for run in runs for chance in run.log_probabilities]
        return Reading(
            text="".join(token.text for token in tokens).strip(),
            tokens=tuple(tokens),
            log_probability=float(np.mean(chances)) if chances else 0.0,
            complete=all(run.complete for run in runs),
            width=self._network.width,
        )

    def _run(self, sound: NDArray[np.float32]) -> TokenRun:
        run = self._network.read(sound, int(TOKENS_A_SECOND * len(sound) / RATE) + TOKENS_BESIDE)
        if any(map(_is_foreign, "".join(self._pieces.texts(run.tokens)))):
            return TokenRun((), run.log_probabilities, complete=False)
        return run

    def _tokens(self, run: TokenRun) -> list[Token]:
        texts = self._pieces.texts(run.tokens)
        if texts and not texts[0].startswith(" "):
            texts[0] = f" {texts[0]}"
        return [Token(*pair) for pair in zip(texts, run.log_probabilities, strict=False)]


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


def load_reader(folder: Path, *, threads: int = 1) -> Reader:
    """Return the reader in this folder."""
    return Reader(Network(reader_graphs(folder), threads=threads), load_pieces(folder / PIECES_FILE))
