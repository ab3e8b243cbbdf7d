"""The encoder in torch: a chunk-causal Conformer, whose parts other encoders use, too.

Each frame of 40 ms sees its own chunk and a bounded past, but not the future.

The same blocks compute whole utterances with masks (in training) and steps with slots (in the service). They differ
only in the place of the past: see `BlockContext`. As in the literature, a chunk is the frames that are computed
together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.acoustics.encoder_config import SUBSAMPLING, EncoderConfig, EncoderShape, Tables
from streamer.engine.acoustics.streaming_model import Emissions, ModelState

STEM_CONTEXT = 5
"""How many feature frames before the first one the subsampling needs."""


class Encoder(nn.Module):
    """Computes the log-probabilities of every head from features."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.stem = SubsamplingStem(config)
        self.blocks = nn.ModuleList(ConformerBlock(config, layer) for layer in range(config.layers))
        self.outputs = output_layers(config)
        self.rotation = RotaryPosition(config.rotation_tables)

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
        return self.frames(mel.to(self.dtype), lengths, self.config.whole_frames, self.config.left_frames)

    def lower(self, dtype: torch.dtype) -> None:
        """Compute in this number format."""
        self.to(dtype)

    @property
    def dtype(self) -> torch.dtype:
        """The number format in which it computes."""
        return next(self.parameters()).dtype

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
        chunk, past = self.config.chunk_of(mel.shape[1]), state["mel"]
        recent = torch.cat((past.index_select(0, slots), mel.to(past.dtype)), dim=1)
        past.index_copy_(0, slots, recent[:, -STEM_CONTEXT:])
        frames, context = self.stem(recent), StepContext(self.rotation, self.config.left_frames, state, slots, chunk)
        for block in self.blocks:
            frames = block(frames, context)
        state["frames"].index_add_(0, slots, torch.full_like(slots, chunk))
        return frames

    def emissions(self, frames: Tensor, layer: int | None = None) -> Emissions:
        """Return the log-probabilities of the heads that read this layer, by default the last one."""
        return {
            output.name: self.outputs[output.name](frames).float().log_softmax(-1)
            for output in self.config.heads_of(layer or self.config.layers)
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


def output_layers(config: EncoderShape) -> nn.ModuleDict:
    """Return the layers of the heads by name."""
    return nn.ModuleDict({output.name: nn.Linear(config.frame_width, output.units) for output in config.outputs})


class FeedForward(nn.Sequential):
    """The position-wise feed-forward network."""

    def __init__(self, config: EncoderShape, activation: Callable[[], nn.Module] = nn.SiLU) -> None:
        super().__init__(
            nn.LayerNorm(config.width),
            nn.Linear(config.width, config.feedforward),
            activation(),
            nn.Linear(config.feedforward, config.width),
        )


class SelfAttention(nn.Module):
    """Self-attention over the window of the context."""

    def __init__(self, config: EncoderShape, layer: int) -> None:
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


# The context of a block of the encoder: the frames around those that it computes, and their positions.


class BlockContext(Protocol):
    """Gives a block access to the frames around those that it computes."""

    chunk: int

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Attend from each frame over its window. `projected`: query, key and value [batch, frames, 3, heads, size]."""
        ...

    def with_past(self, layer: int, frames: Tensor) -> Tensor:
        """Return these frames after the past frames that the convolution needs."""
        ...


Angles = tuple[Tensor, Tensor]
"""Cosines and sines. They are the same for all layers."""


class RotaryPosition(nn.Module):
    """Rotary position encoding. It rotates pairs of a query or key by angles that grow with the number of the frame."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        cosine, sine = map(torch.from_numpy, tables)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def angles(self, positions: Tensor) -> Angles:
        """Return the angles of positions [frames] or [batch, frames]."""
        phase = positions % len(self.cosine)
        return self.cosine[phase][..., None, None, :], self.sine[phase][..., None, None, :]

    def forward(self, vectors: Tensor, angles: Angles) -> Tensor:
        """Rotate [batch, frames, kinds, heads, size] by these angles."""
        cosine, sine = angles
        first, second = vectors.float().chunk(2, dim=-1)
        rotated = torch.cat((first * cosine - second * sine, first * sine + second * cosine), dim=-1)
        return rotated.to(vectors.dtype)


class UtteranceContext:
    """The context for whole utterances. A mask has the frames that each frame sees."""

    def __init__(
        self,
        rotation: RotaryPosition,
        past: int,
        frames: int,
        lengths: Tensor,
        chunk_frames: int,
        left_frames: int | None,
    ) -> None:
        """`past` is how many frames before the first one a convolution needs."""
        self.chunk = chunk_frames or frames
        self._rotation, self._past = rotation, past
        positions = torch.arange(frames, device=lengths.device)
        self._angles = rotation.angles(positions)
        start = positions // self.chunk * self.chunk
        visible = positions < (start + self.chunk).unsqueeze(1)
        if left_frames is not None:
            visible &= positions >= (start - left_frames).unsqueeze(1)
        valid = positions < lengths.unsqueeze(1)
        # Every frame sees at least itself, because an empty row of the mask would give NaN.
        itself = torch.eye(frames, dtype=torch.bool, device=lengths.device)
        self._mask = _additive((visible & valid.unsqueeze(1) | itself).unsqueeze(1))

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Attend from each frame over the frames in the mask."""
        rotary, value = projected.split((2, 1), dim=2)
        query, key = self._rotation(rotary, self._angles).unbind(2)
        return _attention(query, key.transpose(1, 2), value.squeeze(2).transpose(1, 2), self._mask)

    def with_past(self, layer: int, frames: Tensor) -> Tensor:
        """Return these frames after zeros."""
        return functional.pad(frames, (0, 0, self._past, 0))


class StepContext:
    """The context for a step. The slots have the past keys and values, in ring buffers, and the past frames."""

    def __init__(
        self, rotation: RotaryPosition, left_frames: int, state: ModelState, slots: Tensor, chunk: int
    ) -> None:
        """`left_frames`: how many frames before the chunk it sees."""
        self.chunk = chunk
        self._rotation = rotation
        self._keys, self._values, self._conv, self._slots = state["keys"], state["values"], state.get("conv"), slots
        start = state["frames"].index_select(0, slots).unsqueeze(1)
        positions = start + torch.arange(chunk, device=slots.device)
        self._angles = rotation.angles(positions)
        ring = self._keys.shape[3]
        self._ring_positions = positions % ring
        # The frame at each position of the ring after this chunk is stored.
        newest = start + chunk - 1
        stored_frames = newest - (newest - torch.arange(ring, device=slots.device)) % ring
        visible = (stored_frames >= 0) & (stored_frames >= start - left_frames)
        self._mask = _additive(visible[:, None, None, :])

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Store the keys and values of this chunk in the ring, and attend over the ring."""
        rotary, value = projected.split((2, 1), dim=2)
        query, key = self._rotation(rotary, self._angles).unbind(2)
        keys = self._window(self._keys[:, layer], key)
        values = self._window(self._values[:, layer], value.squeeze(2))
        return _attention(query, keys, values, self._mask)

    def _window(self, stored: Tensor, newest: Tensor) -> Tensor:
        """Store the newest keys or values, and return all that these slots have."""
        stored[self._slots.unsqueeze(1), :, self._ring_positions] = newest
        return stored.index_select(0, self._slots)

    def with_past(self, layer: int, frames: Tensor) -> Tensor:
        """Return these frames after the last ones of their slots. Store the newest for the next step."""
        assert self._conv is not None  # only an encoder with convolutions calls this
        stored = self._conv[:, layer]
        joined = torch.cat((stored.index_select(0, self._slots), frames), dim=1)
        stored.index_copy_(0, self._slots, joined[:, -stored.shape[1] :])
        return joined


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Return the attention. `query` and the result are [batch, frames, heads, size], the others have heads first."""
    # The fused kernel of torch is not used, because its gradient is four times slower in bfloat16 on a CPU.
    scores = (query.transpose(1, 2) * query.shape[-1] ** -0.5) @ key.transpose(-1, -2) + mask.to(query.dtype)
    return (scores.softmax(-1) @ value).transpose(1, 2)


def _additive(visible: Tensor) -> Tensor:
    """Return an additive mask: 0 where a frame is seen, minus infinity elsewhere."""
    return torch.zeros(visible.shape, device=visible.device).masked_fill_(~visible, -torch.inf)
