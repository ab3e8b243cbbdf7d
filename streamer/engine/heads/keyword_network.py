"""The network of a keyword spotter: which phones the encoder tells, and whether they are the word that they seem."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

KEYWORDS_FILE = "keywords.safetensors"
WINDOW = 25  # frames that the network sees before the end of a word: 1 s
KERNEL, STRIDE = 5, 2  # of both convolutions
LOOSEST = -9.0  # only where the score of a word's phones is at least this, the network is asked
Floats = NDArray[np.float32]


class KeywordsError(ValueError):
    """A file does not have the network of a keyword spotter."""


@dataclass(frozen=True)
class KeywordNetwork:
    """Two convolutions over the last second, which tell the words from what sounds like them.

    They see the probabilities of the phones and a projection of the frames. The logit of a word is what they say, plus
    the score of its phones with a weight of its own.
    """

    words: tuple[str, ...]
    pronunciations: tuple[tuple[int, tuple[int, ...]], ...]  # the number of a word, and its phones
    thresholds: Floats  # of the probability of each word
    weights: dict[str, Floats]

    @property
    def width(self) -> int:
        """The size of a frame."""
        return len(self.weights["silence"])

    def phones(self, frames: Floats) -> Floats:
        """The probability of each phone in each frame."""
        scores = frames @ self.weights["phones"] + self.weights["phones_bias"]
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        found: Floats = shares / shares.sum(axis=1, keepdims=True)
        return found

    def probabilities(self, frames: Floats, scores: Floats) -> Floats:
        """The probability that each word ends in each frame, without the first WINDOW - 1: [frames, words].

        `scores` of the phones of each word: [frames, words].
        """
        found = np.zeros(scores.shape, np.float32)
        asked = np.nonzero((scores >= LOOSEST).any(axis=1))[0]
        if len(asked):
            found[asked] = self.judged(np.stack([frames[place : place + WINDOW] for place in asked]), scores[asked])
        return found

    def judged(self, windows: Floats, scores: Floats) -> Floats:
        """The probability that each word ends with each window: [windows, words]."""
        of = self.weights
        shares = self.phones(windows.reshape(-1, self.width)).reshape(*windows.shape[:2], -1)
        seen = np.concatenate([shares, windows @ of["projection"] + of["projection_bias"]], axis=2)
        hidden = _convolved(_convolved(seen, of["first"], of["first_bias"]), of["second"], of["second_bias"])
        logits = hidden.reshape(len(windows), -1) @ of["output"] + of["output_bias"] + scores * of["score"]
        found: Floats = np.where(scores >= LOOSEST, 1 / (1 + np.exp(-np.clip(logits, -30, 30))), 0).astype(np.float32)
        return found

    def save(self, folder: Path) -> None:
        """Write the network into a folder, with weights in half precision."""
        described = {"words": json.dumps(self.words), "pronunciations": json.dumps(self.pronunciations)}
        weights = {name: np.ascontiguousarray(value, np.float16) for name, value in self.weights.items()}
        save_file({**weights, "thresholds": self.thresholds.astype(np.float32)}, folder / KEYWORDS_FILE, described)

    @classmethod
    def load(cls, folder: Path) -> KeywordNetwork:
        """Read the network from a folder. KeywordsError says what is wrong."""
        path = folder / KEYWORDS_FILE
        if not path.is_file():
            raise KeywordsError(f"{path} is missing: run scripts/train/train_keywords.py")
        try:
            with safe_open(path, "numpy") as file:
                described = file.metadata()
            words = tuple(json.loads(described["words"]))
            pronunciations = tuple((word, tuple(phones)) for word, phones in json.loads(described["pronunciations"]))
            weights = {name: value.astype(np.float32) for name, value in load_file(path).items()}
            return cls(words, pronunciations, weights.pop("thresholds"), weights)
        except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
            raise KeywordsError(f"{path} does not have a keyword spotter: {error}") from error


def _convolved(values: Floats, weights: Floats, bias: Floats) -> Floats:
    """[batch, length, in] to [batch, shorter, out]: a window of KERNEL every STRIDE places, and no negative results."""
    windows = np.lib.stride_tricks.sliding_window_view(values, KERNEL, axis=1)[:, ::STRIDE]
    found: Floats = np.maximum(windows.reshape(*windows.shape[:2], -1) @ weights + bias, 0)
    return found
