"""The shapes of encoders, and what does not depend on weights: lengths of frames and steps, and angles of positions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from streamer.base.json_types import JsonObject
from streamer.base.limits import WHOLE_MS
from streamer.engine.acoustics.features import HOP, SAMPLE_RATE

SUBSAMPLING: Final = 4
"""How many feature frames a frame of an encoder has. Encoders that read no features have as many for the activity."""
FRAME_SAMPLES: Final = SUBSAMPLING * HOP
"""The samples of a frame of the Conformer."""


class EncoderKind(Enum):
    """What an encoder reads, and how it is built."""

    CONFORMER = "conformer"  # from log-mel features; that of a bundle which names no kind
    MOONSHINE = "moonshine"  # from samples, like the encoder of Moonshine, from whose weights it begins


@dataclass(frozen=True)
class CtcHead:
    """A CTC head: its name, the block whose output it reads, and the number of its units."""

    name: str
    layer: int
    units: int


Tables = tuple[NDArray[np.float32], NDArray[np.float32]]
"""The cosines and sines by which positions rotate the pairs of a vector: [period, size / 2]."""


class EncoderShape(ABC):
    """What the shapes of all kinds of encoders have. Frames are those that the heads read."""

    kind: ClassVar[EncoderKind]
    outputs: tuple[CtcHead, ...]
    mels: int  # the energies of a feature frame
    width: int
    layers: int
    heads: int
    feedforward: int
    left_frames: int  # how many frames before a step each layer sees
    largest_chunk: int  # the most frames of a step
    pooled: int = 1  # how many frames of its blocks are one that the heads read

    @property
    @abstractmethod
    def frame_samples(self) -> int:
        """The samples of a frame."""

    @property
    def frame_width(self) -> int:
        """The numbers of a frame."""
        return self.width

    @property
    def frame_ms(self) -> float:
        """The length of a frame."""
        return 1000 * self.frame_samples / SAMPLE_RATE

    @property
    def hop(self) -> int:
        """The samples of a feature frame."""
        return self.frame_samples // SUBSAMPLING

    @property
    def whole_frames(self) -> int:
        """How many frames of a complete segment are computed together, so that they see one another."""
        return WHOLE_MS * SAMPLE_RATE // (1000 * self.frame_samples)

    @property
    @abstractmethod
    def rotation_tables(self) -> Tables:
        """The angles by which positions rotate keys and queries."""

    def frames_of(self, samples: int) -> int:
        """Return the number of frames of a step of samples. ValueError if a step cannot have this length."""
        if samples % self.frame_samples or not 0 < samples <= self.largest_chunk * self.frame_samples:
            frame = self.frame_samples
            raise ValueError(
                f"a step must have a multiple of {frame} samples, at most {self.largest_chunk * frame}, not {samples}"
            )
        return samples // self.frame_samples

    def heads_of(self, layer: int) -> list[CtcHead]:
        """Return the heads that read this layer."""
        return [output for output in self.outputs if output.layer == layer]

    def check(self) -> None:
        """Raise ValueError if no network has this shape."""
        if self.width % (2 * self.heads):
            raise ValueError(f"width {self.width} does not split into {self.heads} heads of even size")
        misplaced = [output.name for output in self.outputs if not 1 <= output.layer <= self.layers]
        if misplaced:
            raise ValueError(f"heads {', '.join(misplaced)} must read a layer from 1 to {self.layers}")


@dataclass(frozen=True)
class EncoderConfig(EncoderShape):
    """The shape of a Conformer."""

    kind = EncoderKind.CONFORMER

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
        self.check()

    @property
    def frame_samples(self) -> int:
        """The samples of a frame."""
        return FRAME_SAMPLES

    @property
    def rotation_tables(self) -> Tables:
        """The angles by which positions rotate keys and queries."""
        return rotation_tables(self.width // self.heads)

    def chunk_of(self, hops: int) -> int:
        """Return the number of frames of a step of feature frames. ValueError if a step cannot have this length."""
        longest = self.largest_chunk * SUBSAMPLING
        if hops % SUBSAMPLING or not SUBSAMPLING <= hops <= longest:
            raise ValueError(f"a step must have 4 to {longest} feature frames, and a multiple of 4, not {hops}")
        return hops // SUBSAMPLING

    def to_json(self) -> JsonObject:
        """Return the configuration as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> EncoderConfig:
        """Read the configuration from JSON values."""
        return cls(**{**values, "outputs": _heads(values)})


STEM_STRIDES: Final = (64, 3, 2)
STEM_KERNELS: Final = (127, 7, 3)
"""Of Moonshine's three convolutions."""
FIRST_FRAMES: Final = STEM_STRIDES[1] * STEM_STRIDES[2]
"""How many frames of the first convolution there are for one of the last."""
STEM_SAMPLES: Final = STEM_STRIDES[0] * FIRST_FRAMES
"""The samples from one frame of the last convolution to the next."""
STEM_CONTEXT: Final = 511
"""How many samples before a frame of its own these convolutions read."""
OVERLAP: Final = STEM_KERNELS[1] - STEM_STRIDES[1] + STEM_STRIDES[1] * (STEM_KERNELS[2] - STEM_STRIDES[2])
"""How many of the last frames of the first convolution the next step computes again, for the other convolutions."""
LOUDNESS_PRIOR: Final = 125
"""How many frames of usual loudness the statistics of a segment begin with: those of half a second."""
LOUDNESS_FLOOR: Final = 1e-5
"""What is added to the variance, so that silence stays silence."""
MOONSHINE_PERIOD: Final = 8192
_SLOWEST: Final = 10_000.0


@dataclass(frozen=True)
class MoonshineConfig(EncoderShape):
    """The shape of an encoder that reads samples, like Moonshine's.

    Its blocks compute `pooled` times as many frames as the heads read: each of these frames is several side by side.
    Positions rotate the first `rotated` numbers of a key and a query.
    """

    kind = EncoderKind.MOONSHINE

    outputs: tuple[CtcHead, ...]
    mels: int = 80  # for the activity alone
    width: int = 288
    layers: int = 6
    heads: int = 8
    feedforward: int = 1152
    rotated: int = 32
    pooled: int = 2
    left_frames: int = 64
    largest_chunk: int = 13

    def __post_init__(self) -> None:
        self.check()
        if self.pooled < 1 or self.rotated % 2 or not 0 <= self.rotated <= self.width // self.heads:
            raise ValueError(f"pooled {self.pooled} and rotated {self.rotated} do not fit heads of this size")

    @property
    def frame_samples(self) -> int:
        """The samples of a frame."""
        return STEM_SAMPLES * self.pooled

    @property
    def frame_width(self) -> int:
        """The numbers of a frame."""
        return self.width * self.pooled

    @property
    def rotation_tables(self) -> Tables:
        """The angles of Moonshine, rounded to whole turns in a period, so that a stream may have any length.

        Within the past that a frame sees, this moves no angle by more than 0.06. The last numbers are not rotated.
        """
        size, pairs = self.width // self.heads, self.rotated // 2
        turns = np.zeros(size // 2)
        turns[:pairs] = np.round(MOONSHINE_PERIOD / (2 * np.pi) * _SLOWEST ** (-np.arange(pairs) / max(pairs, 1)))
        return _tables(turns, MOONSHINE_PERIOD)

    def to_json(self) -> JsonObject:
        """Return the configuration as plain JSON values."""
        return {KIND: self.kind.value, **asdict(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> MoonshineConfig:
        """Read the configuration from JSON values."""
        return cls(**{**{name: value for name, value in values.items() if name != KIND}, "outputs": _heads(values)})


KIND: Final = "kind"
AnyEncoder = EncoderConfig | MoonshineConfig


def encoder_from_json(values: Mapping[str, Any]) -> AnyEncoder:
    """Read the configuration of an encoder of any kind. ValueError if this version does not know the kind."""
    kind = EncoderKind(values.get(KIND, EncoderKind.CONFORMER.value))
    return MoonshineConfig.from_json(values) if kind is EncoderKind.MOONSHINE else EncoderConfig.from_json(values)


def _heads(values: Mapping[str, Any]) -> tuple[CtcHead, ...]:
    return tuple(CtcHead(**output) for output in values["outputs"])


# Rotary angles repeat after this many frames, so that a stream may have any length, and keys can be stored rotated.
# Only the distance between two frames has an effect, and no window is as long as this.
ROTATION_PERIOD: Final = 1024


def rotation_tables(size: int) -> Tables:
    """Return the cosines and sines by which positions rotate the pairs of a vector: [ROTATION_PERIOD, size / 2]."""
    # Every pair makes a whole number of turns in a period, from 1 radian per frame down to one turn.
    fastest = ROTATION_PERIOD / (2 * np.pi)
    return _tables(np.round(fastest ** np.linspace(1, 0, size // 2)), ROTATION_PERIOD)


def _tables(turns: NDArray[np.float64], period: int) -> Tables:
    angles = np.outer(np.arange(period), turns) * (2 * np.pi / period)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
