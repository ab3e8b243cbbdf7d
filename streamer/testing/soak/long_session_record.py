"""What is seen of one long session: what was said when, what was told of it, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Recording:
    """Audio of whole milliseconds, and the words that are said in it."""

    audio: NDArray[np.int16]
    words: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """One saying of a recording: where it lies in the session, its pause included."""

    recording: int
    round: int
    start_ms: int
    end_ms: int

    @property
    def exact(self) -> bool:
        """Whether it is parted from the others."""
        return self.round % 2 == 0


@dataclass(frozen=True)
class Word:
    """A word of a final; its times count from the beginning of its turn."""

    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Sample:
    """The state of things when so much audio was heard."""

    audio_ms: int
    at: float
    memory_mb: Mapping[str, float]
    cpu_s: float


@dataclass
class LongSessionRecord:
    """All that was seen of a session."""

    turns: list[Turn] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    delays: list[tuple[int, float]] = field(default_factory=list)  # audio_ms, seconds from sent to heard
    words: list[tuple[str, int, int]] = field(default_factory=list)
    heard_ms: int = 0
