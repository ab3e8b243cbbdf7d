"""The network of a keyword spotter. It computes the phones in frames, and whether they really are a keyword."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

KEYWORDS_FILE = "keywords.safetensors"
WINDOW = 25  # the number of frames up to the end of a word that the network reads: 1 s
KERNEL, STRIDE = 5, 2  # of both convolutions
LOOSEST = -9.0  # the network is computed only where the score of a word's phones is at least this
Floats = NDArray[np.float32]


class KeywordsError(ValueError):
    """A file does not have the network of a keyword spotter."""


@dataclass(frozen=True)
class KeywordNetwork:
    """Two convolutions over the last second, which distinguish the keywords from similar sounds.

    They read the probabilities of the phones and a projection of the frames. The logit of a word is the sum of their
    output and the score of its phones, with a weight.
    """

    words: tuple[str, ...]
    pronunciations: tuple[tuple[int, tuple[int, ...]], ...]  # the number of a word, and its phones
    thresholds: Floats  # the least probability of each word
    weights: dict[str, Floats]

    @property
    def width(self) -> int:
        """The number of values in a frame."""
        return len(self.weights["silence"])

    def phones(self, frames: Floats) -> Floats:
        """Return the probability of each phone in each frame."""
        scores = frames @ self.weights["phones"] + self.weights["phones_bias"]
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities: Floats = shares / shares.sum(axis=1, keepdims=True)
        return probabilities

    def probabilities(self, frames: Floats, scores: Floats) -> Floats:
        """Return the probability that each word ends in each frame, without the first WINDOW - 1: [frames, words].

        `scores` has the score of the phones of each word: [frames, words].
        """
        probabilities = np.zeros(scores.shape, np.float32)
        candidates = np.nonzero((scores >= LOOSEST).any(axis=1))[0]
        if len(candidates):
            probabilities[candidates] = self.judged(
                np.stack([frames[place : place + WINDOW] for place in candidates]), scores[candidates]
            )
        return probabilities

    def judged(self, windows: Floats, scores: Floats) -> Floats:
        """Return the probability that each word ends at the end of each window: [windows, words]."""
        weights = self.weights
        shares = self.phones(windows.reshape(-1, self.width)).reshape(*windows.shape[:2], -1)
        inputs = np.concatenate([shares, windows @ weights["projection"] + weights["projection_bias"]], axis=2)
        hidden = _convolve(
            _convolve(inputs, weights["first"], weights["first_bias"]), weights["second"], weights["second_bias"]
        )
        logits = (
            hidden.reshape(len(windows), -1) @ weights["output"] + weights["output_bias"] + scores * weights["score"]
        )
        probabilities: Floats = np.where(scores >= LOOSEST, 1 / (1 + np.exp(-np.clip(logits, -30, 30))), 0).astype(
            np.float32
        )
        return probabilities

    def save(self, folder: Path) -> None:
        """Write the network into a folder, with weights in half precision."""
        metadata = {"words": json.dumps(self.words), "pronunciations": json.dumps(self.pronunciations)}
        weights = {name: np.ascontiguousarray(value, np.float16) for name, value in self.weights.items()}
        save_file({**weights, "thresholds": self.thresholds.astype(np.float32)}, folder / KEYWORDS_FILE, metadata)

    @classmethod
    def load(cls, folder: Path) -> KeywordNetwork:
        """Read the network from a folder. KeywordsError says what is wrong."""
        path = folder / KEYWORDS_FILE
        if not path.is_file():
            raise KeywordsError(f"{path} is missing: run scripts/train/train_keywords.py")
        try:
            with safe_open(path, "numpy") as file:
                metadata = file.metadata()
            words = tuple(json.loads(metadata["words"]))
            pronunciations = tuple((word, tuple(phones)) for word, phones in json.loads(metadata["pronunciations"]))
            weights = {name: value.astype(np.float32) for name, value in load_file(path).items()}
            return cls(words, pronunciations, weights.pop("thresholds"), weights)
        except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
            raise KeywordsError(f"{path} does not have a keyword spotter: {error}") from error


def _convolve(values: Floats, weights: Floats, bias: Floats) -> Floats:
    """Compute a convolution and ReLU from [batch, length, in] to [batch, shorter, out]."""
    windows = np.lib.stride_tricks.sliding_window_view(values, KERNEL, axis=1)[:, ::STRIDE]
    outputs: Floats = np.maximum(windows.reshape(*windows.shape[:2], -1) @ weights + bias, 0)
    return outputs
