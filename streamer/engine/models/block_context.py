"""The context of a block of the encoder: the frames around those that it computes, and their positions.

In training a block sees whole utterances through masks. In the service it sees the past that is stored in the slots.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.models.streaming_model import ModelState

# Rotary angles repeat after this many frames, so that a stream may have any length, and keys can be stored rotated.
# Only the distance between two frames has an effect, and no window is as long as this.
ROTATION_PERIOD = 1024


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

    def __init__(self, size: int) -> None:
        super().__init__()
        # Every pair makes a whole number of turns in a period, from 1 radian per frame down to one turn.
        fastest = ROTATION_PERIOD / (2 * torch.pi)
        turns = (fastest ** torch.linspace(1, 0, size // 2, dtype=torch.float64)).round()
        angles = torch.outer(torch.arange(ROTATION_PERIOD), turns) * (2 * torch.pi / ROTATION_PERIOD)
        self.register_buffer("cosine", angles.cos().float(), persistent=False)
        self.register_buffer("sine", angles.sin().float(), persistent=False)

    def angles(self, positions: Tensor) -> Angles:
        """Return the angles of positions [frames] or [batch, frames]."""
        phase = positions % ROTATION_PERIOD
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
        self._keys, self._values, self._conv, self._slots = state["keys"], state["values"], state["conv"], slots
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
