"""The places where the phones of a keyword were told: the network of a spotter judges them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamer.engine.heads.keyword_network import LOOSEST, WINDOW, Floats, KeywordNetwork
from streamer.engine.heads.keyword_paths import KeywordPaths
from streamer.training.keywords.material import Spoken

# The end of a word is told when the next boundary is: so many frames before and after its aligned end are right.
EARLY, LATE = 10, 20
APART = 10  # frames between two places of the same word
AT_ONCE = 32  # utterances
KEPT = 3  # of each place, to learn from: the frames with the highest scores


@dataclass(frozen=True)
class Candidates:
    """Frames in which a keyword may end."""

    windows: NDArray[np.float16]  # [candidates, WINDOW, width]
    words: NDArray[np.int64]
    scores: Floats  # of the phones
    right: NDArray[np.bool_]  # whether the word was said there
    number: NDArray[np.int64]  # of the utterance
    frame: NDArray[np.int64]  # the last one


def candidates(network: KeywordNetwork, material: Sequence[Spoken], kept: int | None = KEPT) -> Candidates:
    """Find all candidates in some speech; with `kept`, only the best frames of each place."""
    paths = KeywordPaths(network.pronunciations, len(network.words))
    before = np.repeat(network.weights["silence"][None], WINDOW - 1, axis=0).astype(np.float16)
    windows, found = [], []
    for number, scores in _scored(network, paths, material):
        spoken = material[number]
        seen = np.concatenate([before, spoken.frames])
        for word in np.nonzero((scores >= LOOSEST).any(axis=0))[0]:
            frames = np.nonzero(scores[:, word] >= LOOSEST)[0]
            for place in np.split(frames, np.nonzero(np.diff(frames) > APART)[0] + 1):
                best = place if kept is None else place[np.argsort(-scores[place, word])[:kept]]
                for frame in best:
                    right = any(each.word == word and -EARLY <= frame - each.end <= LATE for each in spoken.keywords)
                    windows.append(seen[frame : frame + WINDOW])
                    found.append((word, scores[frame, word], right, number, frame))
    columns = list(zip(*found, strict=True)) or [()] * 5
    return Candidates(
        np.stack(windows) if windows else np.zeros((0, WINDOW, network.width), np.float16),
        np.array(columns[0], np.int64),
        np.array(columns[1], np.float32),
        np.array(columns[2], np.bool_),
        np.array(columns[3], np.int64),
        np.array(columns[4], np.int64),
    )


def _scored(network: KeywordNetwork, paths: KeywordPaths, material: Sequence[Spoken]) -> Iterator[tuple[int, Floats]]:
    """The number of each utterance, and the scores of the words after each of its frames."""
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
