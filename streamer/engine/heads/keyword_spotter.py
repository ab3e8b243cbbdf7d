"""A keyword spotter: a small head on the frames of the encoder that tells a few words as soon as they were said.

It needs neither torch nor the recogniser. `scripts/train/train_keywords.py` trains its network.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from streamer.engine.heads.passage import Passage, Place
from streamer.engine.open_streams import OpenStreams
from streamer.engine.slots import SlotLease

KEYWORDS_FILE = "keywords.safetensors"
WINDOW = 20  # frames that the network sees: 0.8 s
PAUSE_MS = 600  # a word that was told is not told again so soon
Floats = NDArray[np.float32]


class KeywordsError(ValueError):
    """A file does not have the network of a keyword spotter."""


@dataclass(frozen=True)
class KeywordNetwork:
    """Two layers over a window of frames, which see the probabilities of the phones that the encoder tells in them.

    The first unit of the last layer stands for "none of the words".
    """

    words: tuple[str, ...]
    threshold: float  # of the probability of a word
    weights: dict[str, Floats]

    @property
    def width(self) -> int:
        """The size of a frame."""
        return len(self.weights["silence"])

    def probabilities(self, frames: Floats) -> Floats:
        """The probability of each word after each frame, without the first WINDOW - 1: [frames, words]."""
        of = self.weights
        windows = np.lib.stride_tricks.sliding_window_view(self.phones(frames), WINDOW, axis=0)
        # [frames, phones, window] to [frames, phones * window]
        hidden = np.maximum(windows.reshape(len(windows), -1) @ of["hidden"] + of["hidden_bias"], 0)
        return _shares(hidden @ of["output"] + of["output_bias"])[:, 1:]

    def phones(self, frames: Floats) -> Floats:
        """The probability of each phone in each frame."""
        return _shares(frames @ self.weights["phones"] + self.weights["phones_bias"])

    def save(self, folder: Path) -> None:
        """Write the network into a folder."""
        described = {"words": json.dumps(self.words), "threshold": str(self.threshold)}
        save_file({name: np.ascontiguousarray(value) for name, value in self.weights.items()},
                  folder / KEYWORDS_FILE, described)  # fmt: skip

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
            return cls(words, float(described["threshold"]), load_file(path))
        except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
            raise KeywordsError(f"{path} does not have a keyword spotter: {error}") from error


@dataclass(frozen=True)
class Keyword:
    """A word that was said, and when it was over."""

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
    window: Floats | None = None  # the last frames of the running segment
    told: dict[str, int] = field(default_factory=dict)  # when each word was told last
    told_until: int = -1


class KeywordSpotter:
    """Listens to many streams."""

    def __init__(
        self,
        network: KeywordNetwork,
        *,
        slots: int,
        frame_ms: int = 40,
        idle_limit_s: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.network = network
        self.streams: OpenStreams[_Stream] = OpenStreams(slots, idle_limit_s, clock)
        self._frame_ms = frame_ms

    def listen(self, batch: Sequence[Frames]) -> list[list[Keyword]]:
        """Read the frames of a batch. A passage that failed, or that does not follow the last one, tells nothing."""
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
        if fresh or stream.window is None:
            stream.window = np.repeat(self.network.weights["silence"][None], WINDOW - 1, axis=0)
        seen = np.concatenate([stream.window, frames])
        stream.window = seen[len(seen) - WINDOW + 1 :]
        found: list[Keyword] = []
        if len(frames):
            base_ms = passage.base // 16
            for number, row in enumerate(self.network.probabilities(seen)):
                at_ms = base_ms + (passage.first + number + 1) * self._frame_ms
                found += self._tell(stream, min(at_ms, passage.received // 16), row)
        return found

    def _tell(self, stream: _Stream, at_ms: int, row: Floats) -> list[Keyword]:
        best = int(row.argmax())
        word = self.network.words[best]
        # After a cut, the encoder computes some audio again.
        if row[best] < self.network.threshold or at_ms <= stream.told_until:
            return []
        if at_ms - stream.told.get(word, -PAUSE_MS) < PAUSE_MS:
            return []
        stream.told[word] = stream.told_until = at_ms
        return [Keyword(word, at_ms, round(float(row[best]), 3))]


def _shares(scores: Floats) -> Floats:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: Floats = shares / shares.sum(axis=1, keepdims=True)
    return found


def as_event(name: str, keyword: Keyword) -> str:
    """The event of a head, as JSON."""
    content: dict[str, Any] = {"word": keyword.word, "probability": keyword.probability}
    return json.dumps({"type": "head", "name": name, "at_ms": keyword.at_ms, "content": content})
