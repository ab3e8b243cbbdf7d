"""The description that travels with the frames of an encoder, so that every head knows their part of the stream.

An encoder computes a stream in *runs*. The first run begins with the stream. Each later run begins at a cut, after the
transcript head has decided the cut, with a fresh state. A head compares each passage with those that it has read, and
so notices if one is missing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from streamer.base.codes import FailureCode
from streamer.engine.acoustics.activity import ActivityReading, SpeechBoundary
from streamer.engine.stream_events import StreamError


@dataclass(frozen=True)
class Passage:
    """The part of a stream that one request brought."""

    run: int = 0  # the number of cuts before it
    base: int = 0  # the sample at which the run begins
    first: int = 0  # the number of frames of this run before it
    step: int = 0  # the number of frames in each step
    steps: int = 0
    received: int = 0  # samples of the stream that have arrived
    speaking: bool = False  # somebody was speaking where the run begins
    # Pieces for the detector of speech. They are shorter than a step, and do not start again with a run.
    heard: int = 0  # frames of the stream in the pieces before
    piece: int = 0  # the number of frames in each piece
    pieces: int = 0
    failure: str = ""  # an error before the next head, as `code: sentence`; then the passage has no valid frames

    @property
    def frames(self) -> int:
        """The number of frames in the passage."""
        return self.step * self.steps

    def failed(self, error: Exception) -> Passage:
        """Return this passage with a failure and without frames."""
        text = str(error) if isinstance(error, StreamError) else f"failed: {error}"
        return replace(self, steps=0, pieces=0, failure=text)

    def to_json(self) -> str:
        """Return the passage as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Passage:
        """Read a passage from JSON."""
        return cls(**json.loads(text))

    def check(self) -> None:
        """Raise the failure, if there is one."""
        if self.failure:
            code, _, message = self.failure.partition(": ")
            raise StreamError(FailureCode(code), message)


@dataclass(frozen=True)
class Encoded:
    """The result of an encoder for one stream. The activity network reads the energies, four for each frame.

    The energies of the frames come first, then the energies of the pieces.
    """

    passage: Passage
    frames: NDArray[np.float32]  # [frames, width]
    energies: NDArray[np.float32]  # [4 * frames, mels]


@dataclass(frozen=True)
class Followed:
    """The result of an activity head for a passage."""

    passage: Passage
    probabilities: NDArray[np.float32]  # of speech in each frame
    readings: tuple[ActivityReading, ...]  # after each step; none if there is no activity network
    pieces: tuple[tuple[float, ...], ...] = ()  # the probabilities in the frames of each piece

    def to_json(self) -> str:
        """Return the part that the transcript head needs, as JSON."""
        readings = [
            [list(map(_pair, reading.boundaries)), *(getattr(reading, each.name) for each in fields(reading)[1:])]
            for reading in self.readings
        ]
        content = {"failure": self.passage.failure, "readings": readings, "pieces": self.pieces}
        return json.dumps(content, separators=(",", ":"))


@dataclass(frozen=True)
class Activity:
    """The part of the result of an activity head that the transcript head gets."""

    failure: str
    readings: tuple[ActivityReading, ...]  # after each step
    pieces: tuple[tuple[float, ...], ...]  # the probabilities in the frames of each piece


def activity_of(text: str | bytes) -> Activity:
    """Read the result of an activity head from JSON."""
    content = json.loads(text)
    readings = tuple(
        ActivityReading(tuple(SpeechBoundary(*pair) for pair in boundaries), *rest)
        for boundaries, *rest in content["readings"]
    )
    return Activity(content["failure"], readings, tuple(map(tuple, content["pieces"])))


class Place:
    """The place of a head in a stream. It detects missing passages."""

    def __init__(self) -> None:
        self.run = self.frames = 0
        self._piece_frames = 0  # the frames in pieces so far

    def take(self, passage: Passage) -> bool:
        """Note a passage. Return whether a new run begins with it. StreamError if a passage before it is missing."""
        fresh = passage.run > self.run and passage.first == 0
        missing = not fresh and (passage.run, passage.first) != (self.run, self.frames)
        if missing or passage.heard != self._piece_frames:
            raise StreamError(FailureCode.FAILED, "a part of the stream did not reach this head")
        self.run, self.frames = passage.run, passage.first + passage.frames
        self.skip(passage)
        return fresh

    def skip(self, passage: Passage) -> None:
        """Note a passage whose frames are dropped. Only its pieces count."""
        self._piece_frames += passage.piece * passage.pieces


def _pair(boundary: SpeechBoundary) -> list[bool | int]:
    return [getattr(boundary, each.name) for each in fields(boundary)]
