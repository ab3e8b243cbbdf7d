"""Finds the places in speech that have the phones of a keyword. The network of a spotter judges them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamer.engine.heads.keyword_network import LOOSEST, WINDOW, Floats, KeywordNetwork
from streamer.engine.heads.keyword_paths import KeywordPaths
from streamer.training.keywords.material import Spoken

# A keyword ends where the next boundary is heard. It is right up to this many frames before or after its aligned end.
EARLY, LATE = 10, 20
APART = 10  # frames between two places of the same word
AT_ONCE = 32  # utterances
KEPT = 3  # frames of each place that training uses: those with the highest scores


@dataclass(frozen=True)
class Candidates:
    """Frames in which a keyword may end."""

    windows: NDArray[np.float16]  # [candidates, WINDOW, width]
    words: NDArray[np.int64]
    scores: Floats  # the scores of the phones
    right: NDArray[np.bool_]  # whether the word was said there
    number: NDArray[np.int64]  # the number of the utterance
    frame: NDArray[np.int64]  # the last frame


def candidates(network: KeywordNetwork, material: Sequence[Spoken], kept: int | None = KEPT) -> Candidates:
    """Find all candidates in some speech; with `kept`, only this many frames of each place, the best ones."""
    paths = KeywordPaths(network.pronunciations, len(network.words))
    before = np.repeat(network.weights["silence"][None], WINDOW - 1, axis=0).astype(np.float16)
    windows, rows = [], []
    for number, scores in _scored(network, paths, material):
        spoken = material[number]
        padded = np.concatenate([before, spoken.frames])
        for word in np.nonzero((scores >= LOOSEST).any(axis=0))[0]:
            frames = np.nonzero(scores[:, word] >= LOOSEST)[0]
            for place in np.split(frames, np.nonzero(np.diff(frames) > APART)[0] + 1):
                best = place if kept is None else place[np.argsort(-scores[place, word])[:kept]]
                for frame in best:
                    right = any(each.word == word and -EARLY <= frame - each.end <= LATE for each in spoken.keywords)
                    windows.append(padded[frame : frame + WINDOW])
                    rows.append((word, scores[frame, word], right, number, frame))
    columns = list(zip(*rows, strict=True)) or [()] * 5
    return Candidates(
        np.stack(windows) if windows else np.zeros((0, WINDOW, network.width), np.float16),
        np.array(columns[0], np.int64),
        np.array(columns[1], np.float32),
        np.array(columns[2], np.bool_),
        np.array(columns[3], np.int64),
        np.array(columns[4], np.int64),
    )


def _scored(network: KeywordNetwork, paths: KeywordPaths, material: Sequence[Spoken]) -> Iterator[tuple[int, Floats]]:
    """Yield the number of each utterance, and the scores of the words after each of its frames."""
    ordered = sorted(range(len(material)), key=lambda number: len(material[number].frames))
    for start in range(0, len(ordered), AT_ONCE):
        numbers = ordered[start : start + AT_ONCE]
        shares = np.zeros(
            (len(numbers), len(material[numbers[-1]].frames), len(network.weights["phones_bias"])), np.float32
        )
        for row, number in enumerate(numbers):
            frames = material[number].frames
            shares[row, : len(frames)] = network.phones(frames.astype(np.float32))
        _, scores = paths.follow(paths.begin(len(numbers)), shares)
        for row, number in enumerate(numbers):
            yield number, scores[row, : len(material[number].frames)]
