"""The shape of the encoder, and what does not depend on its weights: lengths of steps, and angles of positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamer.base.json_types import JsonObject
from streamer.base.limits import WHOLE_MS
from streamer.engine.acoustics.features import HOP, SAMPLE_RATE

SUBSAMPLING: Final = 4
FRAME_MS: Final = SUBSAMPLING * HOP * 1000 // SAMPLE_RATE
FRAME_SAMPLES: Final = SUBSAMPLING * HOP
WHOLE_FRAMES: Final = WHOLE_MS // FRAME_MS
"""How many frames of a complete segment are computed together, so that they see one another."""


@dataclass(frozen=True)
class CtcHead:
    """A CTC head: its name, the block whose output it reads, and the number of its units."""

    name: str
    layer: int
    units: int


@dataclass(frozen=True)
class EncoderConfig:
    """The shape of an encoder."""

    outputs: tuple[CtcHead, ...]
    mels: int = 80
    stem: int = 128
    width: int = 144
    layers: int = 8
    heads: int = 4
    feedforward: int = 432
    kernel: int = 15
    chunk_kernel: int = 9
    left_frames: int = 64
    largest_chunk: int = 16

    def __post_init__(self) -> None:
        if self.width % (2 * self.heads):
            raise ValueError(f"width {self.width} does not split into {self.heads} heads of even size")
        misplaced = [output.name for output in self.outputs if not 1 <= output.layer <= self.layers]
        if misplaced:
            raise ValueError(f"heads {', '.join(misplaced)} must read a layer from 1 to {self.layers}")

    def chunk_of(self, hops: int) -> int:
        """Return the number of frames of a step of feature frames. ValueError if a step cannot have this length."""
        longest = self.largest_chunk * SUBSAMPLING
        if hops % SUBSAMPLING or not SUBSAMPLING <= hops <= longest:
            raise ValueError(f"a step must have 4 to {longest} feature frames, and a multiple of 4, not {hops}")
        return hops // SUBSAMPLING

    def heads_of(self, layer: int) -> list[CtcHead]:
        """Return the heads that read this layer."""
        return [output for output in self.outputs if output.layer == layer]

    def to_json(self) -> JsonObject:
        """Return the configuration as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> EncoderConfig:
        """Read the configuration from JSON values."""
        outputs = tuple(CtcHead(**output) for output in values["outputs"])
        return cls(**{**values, "outputs": outputs})


# Rotary angles repeat after this many frames, so that a stream may have any length, and keys can be stored rotated.
# Only the distance between two frames has an effect, and no window is as long as this.
ROTATION_PERIOD: Final = 1024


def rotation_tables(size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the cosines and sines by which positions rotate the pairs of a vector: [ROTATION_PERIOD, size / 2]."""
    # Every pair makes a whole number of turns in a period, from 1 radian per frame down to one turn.
    fastest = ROTATION_PERIOD / (2 * np.pi)
    turns = np.round(fastest ** np.linspace(1, 0, size // 2))
    angles = np.outer(np.arange(ROTATION_PERIOD), turns) * (2 * np.pi / ROTATION_PERIOD)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
