"""The record of one long session: its turns, the recognised words, and samples of memory and processor time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Recording:
    """Audio of whole milliseconds, and its reference words."""

    audio: NDArray[np.int16]
    words: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """One use of a recording in the session, with the pause after it."""

    recording: int
    round: int
    start_ms: int
    end_ms: int

    @property
    def exact(self) -> bool:
        """Whether flushes separate the turn from the others, so that its words must always be the same."""
        return self.round % 2 == 0


@dataclass(frozen=True)
class Word:
    """A word of a final; its times count from the beginning of its turn."""

    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Sample:
    """The figures of the processes when this much audio was recognised."""

    audio_ms: int
    at: float
    memory_mb: Mapping[str, float]
    cpu_s: float


@dataclass
class LongSessionRecord:
    """Everything that was observed of a session."""

    turns: list[Turn] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    delays: list[tuple[int, float]] = field(default_factory=list)  # audio_ms, seconds from sending to recognition
    words: list[tuple[str, int, int]] = field(default_factory=list)
    heard_ms: int = 0
