"""Cuts recordings of any length at pauses into pieces for a reader, by the activity network of the recogniser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import numpy as np

from streamer.base.torch_import import CPU
from streamer.engine.acoustics.activity import ActivityRule, ActivityTracker
from streamer.engine.acoustics.bundle_files import ACTIVITY_FILE, BundleError
from streamer.engine.bundle import load_acoustic_model
from workshop.data.corpus import SAMPLE_RATE, Samples

_READ_AT_ONCE: Final = 250  # frames: each is as many samples as have one probability of speech
_SLOT: Final = 0


@dataclass(frozen=True)
class CuttingRule:
    """How recordings are cut. The times are in seconds.

    `longest_s`: no piece is longer. `joined_s`: after a shorter pause the piece goes on. `around_s`: what a piece has
    before its first and after its last sound, but not more than half of the pause.
    """

    longest_s: float = 20.0
    joined_s: float = 1.0
    around_s: float = 0.3


@dataclass(frozen=True)
class Piece:
    """A part of a recording with speech: its samples, and how many seconds of them are speech."""

    start: int
    end: int
    speech_s: float

    @property
    def seconds(self) -> float:
        """The length of the piece."""
        return (self.end - self.start) / SAMPLE_RATE


class Cutter:
    """Cuts recordings at pauses."""

    def __init__(self, bundle: Path, rule: CuttingRule) -> None:
        """`bundle`: the recogniser whose activity network is used. BundleError if it has none."""
        model = load_acoustic_model(bundle, CPU)
        detector = model.detector(1)
        if detector is None:
            raise BundleError(f"{bundle / ACTIVITY_FILE} is missing: recordings cannot be cut at pauses without it")
        self._detector, self._rule, self._frame = detector, rule, model.frame_samples

    def cut(self, samples: Samples) -> list[Piece]:
        """Return the pieces of a recording at 16 kHz, in order. They do not overlap."""
        return list(cut(self._probabilities(samples), len(samples), self._rule, self._frame))

    def _probabilities(self, samples: Samples) -> list[float]:
        """Return the probability of speech in each frame. The last frame is filled up with silence."""
        padded = np.pad(samples, (0, -len(samples) % self._frame))
        self._detector.reset([_SLOT])
        found: list[float] = []
        size = _READ_AT_ONCE * self._frame
        for start in range(0, len(padded), size):
            [probabilities] = self._detector.compute([_SLOT], [[padded[start : start + size]]])
            found += probabilities
        return found


def cut(probabilities: Sequence[float], samples: int, rule: CuttingRule, frame: int) -> Iterator[Piece]:
    """Yield the pieces of a recording with so many samples, by the probability of speech in each of its frames.

    `frame`: the samples of a frame.
    """
    frame_s = frame / SAMPLE_RATE
    around, most = round(rule.around_s / frame_s), int(rule.longest_s / frame_s)
    spans = _spans(probabilities, ActivityRule(frame_ms=1000 * frame_s))
    sounds = [part for span in spans for part in _divided(probabilities, *span, most - 2 * around)]
    joined: list[tuple[int, int]] = []
    for start, end in sounds:
        if joined and (start - joined[-1][1]) * frame_s < rule.joined_s and end - joined[-1][0] <= most - 2 * around:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    ends = [0, *(end for _, end in joined)]
    starts = [*(start for start, _ in joined), len(probabilities)]
    for number, (start, end) in enumerate(joined):
        first = max(start - around, (start + ends[number] + 1) // 2 if number else 0)
        last = min(end + around, (end + starts[number + 1] + 1) // 2 if number + 1 < len(joined) else starts[-1])
        speech = sum(probability >= ActivityRule.close_below for probability in probabilities[first:last])
        yield Piece(first * frame, min(last * frame, samples), round(speech * frame_s, 3))


def _spans(probabilities: Sequence[float], rule: ActivityRule) -> Iterator[tuple[int, int]]:
    """Yield where somebody speaks, in frames."""
    began: int | None = None
    for boundary in ActivityTracker(rule).read(probabilities):
        if boundary.speaking:
            began = boundary.frame
        elif began is not None:
            yield began, boundary.frame
            began = None
    if began is not None:
        yield began, len(probabilities)


def _divided(probabilities: Sequence[float], start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a span, none longer than this. It is cut in its longest pause, or where speech is unlikely."""
    while end - start > most:
        # A part is not much shorter than it may be, because readers make more errors in short ones.
        earliest = start + most // 3
        window = probabilities[earliest : start + most]
        pauses: list[tuple[int, int]] = []  # their lengths and first frames
        at = earliest
        for quiet, frames in groupby(window, lambda probability: probability < ActivityRule.close_below):
            length = len(list(frames))
            pauses += [(length, at)] * quiet
            at += length
        if pauses:
            length, at = max(pauses)
            yield start, at
            start = at + length
        else:
            at = earliest + int(np.argmin(window))
            yield start, at
            start = at
    yield start, end
