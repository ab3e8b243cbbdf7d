"""A keyword spotter: a small head that finds a few words in the frames of the encoder as soon as they are said.

It needs neither torch nor the recogniser. `scripts/train/train_keywords.py` trains its network.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamer.engine.heads.keyword_network import WINDOW, Floats, KeywordNetwork
from streamer.engine.heads.keyword_paths import KeywordPaths
from streamer.engine.heads.passage import Passage, Place
from streamer.engine.open_streams import OpenStreams
from streamer.engine.slots import SlotLease

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
        frame_ms: int = 40,
        idle_limit_s: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.network = network
        self._paths = KeywordPaths(network.pronunciations, len(network.words))
        self.streams: OpenStreams[_Stream] = OpenStreams(slots, idle_limit_s, clock)
        self._frame_ms = frame_ms

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
        base_ms = passage.base // 16
        keywords: list[Keyword] = []
        for number, row in enumerate(self.network.probabilities(recent, scores)):
            at_ms = base_ms + (passage.first + number + 1) * self._frame_ms
            keywords += self._report(stream, min(at_ms, passage.received // 16), row)
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
    content: dict[str, Any] = {"word": keyword.word, "probability": keyword.probability}
    return json.dumps({"type": "head", "name": name, "at_ms": keyword.at_ms, "content": content})
