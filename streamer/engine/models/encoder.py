"""A chunk-causal Conformer. Each frame of 40 ms sees its own chunk and a bounded past, but not the future.

The same blocks compute whole utterances with masks (in training) and steps with slots (in the service). They differ
only in the place of the past: see `block_context.py`. As in the literature, a chunk is the frames that are computed
together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.models.block_context import BlockContext, RotaryPosition, StepContext, UtteranceContext
from streamer.engine.models.features import HOP, SAMPLE_RATE
from streamer.engine.models.streaming_model import Emissions, ModelState
from streamer.limits import WHOLE_MS

SUBSAMPLING = 4
FRAME_MS = SUBSAMPLING * HOP * 1000 // SAMPLE_RATE
WHOLE_FRAMES = WHOLE_MS // FRAME_MS
"""How many frames of a complete segment are computed together, so that they see one another."""
STEM_CONTEXT = 5
"""How many feature frames before the first one the subsampling needs."""


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

    def chunk_of(self, mel: Tensor) -> int:
        """Return the number of frames of a step. ValueError if a step cannot have this length."""
        hops, longest = mel.shape[1], self.largest_chunk * SUBSAMPLING
        if hops % SUBSAMPLING or not SUBSAMPLING <= hops <= longest:
            raise ValueError(f"a step must have 4 to {longest} feature frames, and a multiple of 4, not {hops}")
        return hops // SUBSAMPLING

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> EncoderConfig:
        """Read the configuration from JSON values."""
        outputs = tuple(CtcHead(**output) for output in values["outputs"])
        return cls(**{**values, "outputs": outputs})


class Encoder(nn.Module):
    """Computes the log-probabilities of every head from features."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.stem = SubsamplingStem(config)
        self.blocks = nn.ModuleList(ConformerBlock(config, layer) for layer in range(config.layers))
        self.outputs = nn.ModuleDict({output.name: nn.Linear(config.width, output.units) for output in config.outputs})
        self.rotation = RotaryPosition(config.width // config.heads)

    def forward(self, mel: Tensor, lengths: Tensor, chunk_frames: int = 0, left_frames: int | None = None) -> Emissions:
        """Return the log-probabilities of whole utterances.

        `mel` is [batch, 4 * frames, mels]; `lengths` counts frames; `chunk_frames` 0 means one chunk as long as the
        utterance; `left_frames` limits the past before a chunk, and None means all of it. No frame attends to audio
        after the end of its utterance. But the convolution of the last chunk reads it: faint noise, as in the service.
        """
        return self._blocks(*self._begin(mel, lengths, chunk_frames, left_frames))

    def frames(self, mel: Tensor, lengths: Tensor, chunk_frames: int, left_frames: int) -> Tensor:
        """Return the frames of whole utterances, as `step` gives them."""
        frames, context = self._begin(mel, lengths, chunk_frames, left_frames)
        for block in self.blocks:
            frames = block(frames, context)
        return frames

    def whole(self, mel: Tensor) -> Tensor:
        """Return the frames of a complete segment, [1, frames, width]. They are computed in the longest chunks."""
        lengths = torch.tensor([mel.shape[1] // SUBSAMPLING], device=mel.device)
        return self.frames(mel.to(self.dtype), lengths, WHOLE_FRAMES, self.config.left_frames)

    @property
    def dtype(self) -> torch.dtype:
        """The number format in which it computes."""
        return next(self.parameters()).dtype

    def keep_heads(self) -> None:
        """Drop all parts except for the heads. Then only `emissions` can be computed."""
        for part in ("stem", "blocks", "rotation"):
            if hasattr(self, part):
                delattr(self, part)

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        config = self.config
        like = self.stem.first.weight
        ring = config.left_frames + config.largest_chunk
        size = config.width // config.heads
        return {
            "mel": like.new_zeros(slots, STEM_CONTEXT, config.mels),
            # Heads come before frames, as attention reads them, so that nothing is copied in another order.
            "keys": like.new_zeros(slots, config.layers, config.heads, ring, size),
            "values": like.new_zeros(slots, config.layers, config.heads, ring, size),
            "conv": like.new_zeros(slots, config.layers, config.kernel - 1, config.width),
            "frames": torch.zeros(slots, dtype=torch.int64, device=like.device),
        }

    def step(self, state: ModelState, slots: Tensor, mel: Tensor) -> Tensor:
        """Return the next frames of each slot, [batch, chunk, width]: `mel` is [batch, 4 * chunk, mels]."""
        chunk, past = self.config.chunk_of(mel), state["mel"]
        recent = torch.cat((past.index_select(0, slots), mel.to(past.dtype)), dim=1)
        past.index_copy_(0, slots, recent[:, -STEM_CONTEXT:])
        frames, context = self.stem(recent), StepContext(self.rotation, self.config.left_frames, state, slots, chunk)
        for block in self.blocks:
            frames = block(frames, context)
        state["frames"].index_add_(0, slots, torch.full_like(slots, chunk))
        return frames

    def emissions(self, frames: Tensor, layer: int | None = None) -> Emissions:
        """Return the log-probabilities of the heads that read this layer, by default the last one."""
        on = layer or self.config.layers
        return {
            output.name: self.outputs[output.name](frames).float().log_softmax(-1)
            for output in self.config.outputs
            if output.layer == on
        }

    def _begin(
        self, mel: Tensor, lengths: Tensor, chunk_frames: int, left_frames: int | None
    ) -> tuple[Tensor, BlockContext]:
        frames: Tensor = self.stem(functional.pad(mel, (0, 0, STEM_CONTEXT, 0)))
        before = self.config.kernel - 1
        return frames, UtteranceContext(self.rotation, before, frames.shape[1], lengths, chunk_frames, left_frames)

    def _blocks(self, frames: Tensor, context: BlockContext) -> Emissions:
        emissions: Emissions = {}
        for layer, block in enumerate(self.blocks, start=1):
            frames = block(frames, context)
            emissions |= self.emissions(frames, layer)
        return emissions


class SubsamplingStem(nn.Module):
    """Makes one frame of four feature frames, with two convolutions of stride 2 that only look back."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.first = nn.Conv1d(config.mels, config.stem, 5, stride=2)
        self.second = nn.Conv1d(config.stem, config.width, 3, stride=2)
        self.norm = nn.LayerNorm(config.width)

    def forward(self, mel: Tensor) -> Tensor:
        """Compute [batch, frames, width] from [batch, STEM_CONTEXT + 4 * frames, mels]."""
        hidden = functional.silu(self.first(mel.transpose(1, 2)))
        frames: Tensor = self.norm(self.second(hidden).transpose(1, 2))
        return frames


class ConformerBlock(nn.Module):
    """One Conformer block: half a feed-forward, attention, convolution, half a feed-forward."""

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        self.before = FeedForward(config)
        self.attention = SelfAttention(config, layer)
        self.convolution = ConvolutionModule(config, layer)
        self.after = FeedForward(config)
        self.norm = nn.LayerNorm(config.width)

    def forward(self, frames: Tensor, context: BlockContext) -> Tensor:
        """Compute frames from frames, both [batch, frames, width]."""
        frames = frames + 0.5 * self.before(frames)
        frames = frames + self.attention(frames, context)
        frames = frames + self.convolution(frames, context)
        frames = frames + 0.5 * self.after(frames)
        output: Tensor = self.norm(frames)
        return output


class FeedForward(nn.Sequential):
    """The position-wise feed-forward network."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(
            nn.LayerNorm(config.width),
            nn.Linear(config.width, config.feedforward),
            nn.SiLU(),
            nn.Linear(config.feedforward, config.width),
        )


class SelfAttention(nn.Module):
    """Self-attention over the window of the context."""

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.heads = config.heads
        self.norm = nn.LayerNorm(config.width)
        self.project = nn.Linear(config.width, 3 * config.width)
        self.merge = nn.Linear(config.width, config.width)

    def forward(self, frames: Tensor, context: BlockContext) -> Tensor:
        """Compute frames from frames, both [batch, frames, width]."""
        projected = self.project(self.norm(frames)).unflatten(-1, (3, self.heads, -1))
        merged: Tensor = self.merge(context.attend(self.layer, projected).flatten(2))
        return merged


class ConvolutionModule(nn.Module):
    """A causal depthwise convolution over the past, and another one within the chunk that looks both ways."""

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        width = config.width
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, 2 * width)
        self.causal = DepthwiseConvolution(width, config.kernel)
        self.inside = DepthwiseConvolution(width, config.chunk_kernel)
        self.reach = config.chunk_kernel // 2
        self.mixed = nn.LayerNorm(width)
        self.merge = nn.Linear(width, width)

    def forward(self, frames: Tensor, context: BlockContext) -> Tensor:
        """Compute frames from frames, both [batch, frames, width]."""
        gated = functional.glu(self.gate(self.norm(frames)), dim=-1)
        mixed = self.causal(context.with_past(self.layer, gated)) + self._inside(gated, context.chunk)
        merged: Tensor = self.merge(functional.silu(self.mixed(mixed)))
        return merged

    def _inside(self, frames: Tensor, chunk: int) -> Tensor:
        batch, length, _ = frames.shape
        padded = functional.pad(frames, (0, 0, 0, -length % chunk))
        chunks = padded.reshape(-1, chunk, frames.shape[2])
        mixed = self.inside(functional.pad(chunks, (0, 0, self.reach, self.reach)))
        return mixed.reshape(batch, -1, frames.shape[2])[:, :length]


class DepthwiseConvolution(nn.Conv2d):
    """A convolution over time, separately for each channel. The result is shorter by kernel - 1 frames.

    It is a two-dimensional convolution with the channels last, which needs no transposed copy, and on a CPU less than
    half the time of a one-dimensional one.
    """

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__(width, width, (1, kernel), groups=width, bias=False)

    def forward(self, frames: Tensor) -> Tensor:
        """Compute [batch, frames - kernel + 1, width] from [batch, frames, width]."""
        return super().forward(frames.transpose(1, 2).unsqueeze(2)).squeeze(2).transpose(1, 2)
