"""A keyword spotter: a small head that finds a few words in the frames of the encoder as soon as they are said.

It needs neither torch nor the recogniser. `scripts/train/train_keywords.py` trains its network.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from streamer.base.json_types import JsonObject
from streamer.engine.acoustics.encoder_config import FRAME_SAMPLES
from streamer.engine.acoustics.features import SAMPLE_RATE
from streamer.engine.slots import OpenStreams, SlotLease
from streamer.heads.passage import Passage, Place

PAUSE_MS = 600  # the least time between two reports of the same word


@dataclass(frozen=True)
class Keyword:
    """A word that somebody said, and the time of its end."""

    word: str
    at_ms: int
    probability: float


@dataclass(frozen=True)
class Frames:
    """The frames of a passage of one stream."""

    stream: int
    passage: Passage
    frames: Floats
    start: bool = False
    end: bool = False


@dataclass
class _Stream:
    lease: SlotLease
    last_used: float
    place: Place = field(default_factory=Place)
    paths: Floats | None = None  # the scores of the pronunciations in the running segment
    window: Floats | None = None  # the last frames of the running segment
    last_reports: dict[str, int] = field(default_factory=dict)  # the time of the last report of each word
    last_report_ms: int = -1  # the time of the last report of any word


class KeywordSpotter:
    """Finds keywords in many streams."""

    def __init__(
        self,
        network: KeywordNetwork,
        *,
        slots: int,
        idle_limit_s: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.network = network
        self._paths = KeywordPaths(network.pronunciations, len(network.words))
        self.streams: OpenStreams[_Stream] = OpenStreams(slots, idle_limit_s, clock)

    def listen(self, batch: Sequence[Frames]) -> list[list[Keyword]]:
        """Read the frames of a batch, and return the keywords of each passage.

        A passage that failed, or does not follow the last one of its stream, has no keywords.
        """
        return [self._listen(part) for part in batch]

    def _listen(self, part: Frames) -> list[Keyword]:
        try:
            if part.start:
                self.streams.expire()
                self.streams.open(part.stream, _Stream)
            part.passage.check()
            stream = self.streams.use(part.stream)
            fresh = stream.place.take(part.passage)
            return self._read(stream, part.passage, part.frames, fresh=fresh)
        except Exception:
            # The other heads do not depend on this one. So the stream goes on without keywords.
            self.streams.close(part.stream)
            return []
        finally:
            if part.end:
                self.streams.close(part.stream)

    def _read(self, stream: _Stream, passage: Passage, frames: Floats, *, fresh: bool) -> list[Keyword]:
        if fresh or stream.paths is None or stream.window is None:
            stream.paths = self._paths.begin()
            stream.window = np.repeat(self.network.weights["silence"][None], WINDOW - 1, axis=0)
        recent = np.concatenate([stream.window, frames])
        stream.window = recent[len(recent) - WINDOW + 1 :]
        stream.paths, [scores] = self._paths.follow(stream.paths, self.network.phones(frames)[None])
        keywords: list[Keyword] = []
        for number, row in enumerate(self.network.probabilities(recent, scores)):
            end = passage.base + (passage.first + number + 1) * self.network.frame_samples
            keywords += self._report(stream, 1000 * min(end, passage.received) // SAMPLE_RATE, row)
        return keywords

    def _report(self, stream: _Stream, at_ms: int, row: Floats) -> list[Keyword]:
        best = int((row - self.network.thresholds).argmax())
        word = self.network.words[best]
        # After a cut, the encoder computes some audio again, whose words were reported already.
        if row[best] < self.network.thresholds[best] or at_ms <= stream.last_report_ms:
            return []
        if at_ms - stream.last_reports.get(word, -PAUSE_MS) < PAUSE_MS:
            return []
        stream.last_reports[word] = stream.last_report_ms = at_ms
        return [Keyword(word, at_ms, round(float(row[best]), 3))]


def as_event(name: str, keyword: Keyword) -> str:
    """Return the event of a head with this name for a keyword, as JSON."""
    content: JsonObject = {"word": keyword.word, "probability": keyword.probability}
    return json.dumps({"type": "head", "name": name, "at_ms": keyword.at_ms, "content": content})


# The network of a keyword spotter. It computes the phones in frames, and whether they really are a keyword.

KEYWORDS_FILE = "keywords.safetensors"
WINDOW = 25  # the number of frames up to the end of a word that the network reads: about 1 s
KERNEL, STRIDE = 5, 2  # of both convolutions
LOOSEST = -9.0  # the network is computed only where the score of a word's phones is at least this
Floats = NDArray[np.float32]
_FRAME = "frame_samples"


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
    frame_samples: int  # the samples of a frame of the encoder that it learnt to read

    @property
    def frame_ms(self) -> float:
        """The length of a frame."""
        return 1000 * self.frame_samples / SAMPLE_RATE

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
        metadata = {
            "words": json.dumps(self.words),
            "pronunciations": json.dumps(self.pronunciations),
            _FRAME: str(self.frame_samples),
        }
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
            frame_samples = int(metadata.get(_FRAME, FRAME_SAMPLES))  # earlier files do not have it
            return cls(words, pronunciations, weights.pop("thresholds"), weights, frame_samples)
        except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
            raise KeywordsError(f"{path} does not have a keyword spotter: {error}") from error


def _convolve(values: Floats, weights: Floats, bias: Floats) -> Floats:
    """Compute a convolution and ReLU from [batch, length, in] to [batch, shorter, out]."""
    windows = np.lib.stride_tricks.sliding_window_view(values, KERNEL, axis=1)[:, ::STRIDE]
    outputs: Floats = np.maximum(windows.reshape(*windows.shape[:2], -1) @ weights + bias, 0)
    return outputs


# Scores the pronunciations of keywords against the phones in the frames of an encoder, frame by frame.

BLANK, BOUNDARY = 0, 1
IMPOSSIBLE = -1e9


class KeywordPaths:
    """The paths of all pronunciations. The scores of a stream are in an array from `begin`."""

    def __init__(self, pronunciations: Sequence[tuple[int, Sequence[int]]], words: int) -> None:
        """A pronunciation is the number of a word, and its phones as numbers of units. Every word has at least one."""
        ordered = sorted(pronunciations, key=lambda path_units: path_units[0])
        units = [[BOUNDARY, *phones, BOUNDARY] for _, phones in ordered]
        states = 2 * max(map(len, units)) - 1
        self._units = np.zeros((len(units), states), np.int64)
        self._skips = np.full((len(units), states), IMPOSSIBLE, np.float32)  # over the blank before a unit
        self._last = np.array([2 * len(path_units) - 2 for path_units in units])
        for path, path_units in enumerate(units):
            self._units[path, : 2 * len(path_units) : 2] = path_units
            for number in range(1, len(path_units)):
                if path_units[number] != path_units[number - 1]:
                    self._skips[path, 2 * number] = 0
        self._every = np.arange(len(units))
        self._first_of = np.searchsorted([word for word, _ in ordered], np.arange(words))

    def begin(self, streams: int = 1) -> Floats:
        """Return the scores before the first frame. Speech may begin without a boundary."""
        scores = np.full((streams, *self._units.shape), IMPOSSIBLE, np.float32)
        scores[:, :, 1] = 0
        return scores

    def follow(self, scores: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """Read the probabilities of the units in frames: [streams, frames, units].

        Return the new scores of the paths, and the score of each word after each frame: [streams, frames, words].
        """
        costs = np.log(shares + 1e-10)
        costs -= costs.max(axis=2, keepdims=True)
        word_scores = np.empty((*costs.shape[:2], len(self._first_of)), np.float32)
        for frame in range(costs.shape[1]):
            best = scores.copy()
            np.maximum(best[:, :, 1:], scores[:, :, :-1], out=best[:, :, 1:])
            np.maximum(best[:, :, 2:], scores[:, :, :-2] + self._skips[:, 2:], out=best[:, :, 2:])
            best[:, :, 0] = 0  # a path may begin anywhere
            scores = np.maximum(best + costs[:, frame][:, self._units], IMPOSSIBLE)
            word_scores[:, frame] = np.maximum.reduceat(scores[:, self._every, self._last], self._first_of, axis=1)
            scores[:, self._every, self._last] = IMPOSSIBLE  # a word ends once, in the first frame of a boundary
        return scores, word_scores
