"""What a block of the encoder knows of the frames around those that it computes, and of their positions.

In training a block sees whole utterances through masks. In a service it sees the past that its slots have kept.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.models.streaming_model import ModelState

# Rotary angles repeat after this many frames, so a stream may go on forever and keys can be stored rotated.
# Only the distance between two frames counts, and no window is as long as this.
ROTATION_PERIOD = 1024


class BlockContext(Protocol):
    """Gives a block access to the frames around those it computes."""

    chunk: int

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Attend from each frame over its window. `projected`: query, key and value [batch, frames, 3, heads, size]."""
        ...

    def with_past(self, layer: int, frames: Tensor) -> Tensor:
        """The frames, preceded by the past frames that the convolution needs."""
        ...


Angles = tuple[Tensor, Tensor]
"""Cosines and sines. All layers rotate by the same ones."""


class RotaryPosition(nn.Module):
    """Rotary position encoding: rotates pairs of a query or key by angles that grow with the number of the frame."""

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
        """The angles of positions [frames] or [batch, frames]."""
        phase = positions % ROTATION_PERIOD
        return self.cosine[phase][..., None, None, :], self.sine[phase][..., None, None, :]

    def forward(self, vectors: Tensor, angles: Angles) -> Tensor:
        """Rotate [batch, frames, kinds, heads, size] by these angles."""
        cosine, sine = angles
        first, second = vectors.float().chunk(2, dim=-1)
        rotated = torch.cat((first * cosine - second * sine, first * sine + second * cosine), dim=-1)
        return rotated.to(vectors.dtype)


class UtteranceContext:
    """The context for whole utterances: a mask says which frames each frame sees."""

    def __init__(
        self, rotation: RotaryPosition, past: int, frames: int, lengths: Tensor, chunk_frames: int,
        left_frames: int | None,
    ) -> None:  # fmt: skip
        """`past`: the frames before the first one that a convolution needs."""
        self.chunk = chunk_frames or frames
        self._rotation, self._past = rotation, past
        positions = torch.arange(frames, device=lengths.device)
        self._angles = rotation.angles(positions)
        start = positions // self.chunk * self.chunk
        seen = positions < (start + self.chunk).unsqueeze(1)
        if left_frames is not None:
            seen &= positions >= (start - left_frames).unsqueeze(1)
        valid = positions < lengths.unsqueeze(1)
        # Every frame sees at least itself: an empty row of the mask would give NaN.
        itself = torch.eye(frames, dtype=torch.bool, device=lengths.device)
        self._mask = _additive((seen & valid.unsqueeze(1) | itself).unsqueeze(1))

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Attention under the mask."""
        turning, value = projected.split((2, 1), dim=2)
        query, key = self._rotation(turning, self._angles).unbind(2)
        return _attention(query, key.transpose(1, 2), value.squeeze(2).transpose(1, 2), self._mask)

    def with_past(self, layer: int, frames: Tensor) -> Tensor:
        """Zeros before the first frame."""
        return functional.pad(frames, (0, 0, self._past, 0))


class StepContext:
    """The context for a step: past keys, values and frames are in the slots, the window of keys as a ring buffer."""

    def __init__(
        self, rotation: RotaryPosition, left_frames: int, state: ModelState, slots: Tensor, chunk: int
    ) -> None:
        """`left_frames`: how many frames before the chunk are seen."""
        self.chunk = chunk
        self._rotation = rotation
        self._keys, self._values, self._conv, self._slots = state["keys"], state["values"], state["conv"], slots
        start = state["frames"].index_select(0, slots).unsqueeze(1)
        positions = start + torch.arange(chunk, device=slots.device)
        self._angles = rotation.angles(positions)
        ring = self._keys.shape[3]
        self._ring_positions = positions % ring
        # The newest frame that each position of the ring can hold once this chunk is stored.
        newest = start + chunk - 1
        held = newest - (newest - torch.arange(ring, device=slots.device)) % ring
        seen = (held >= 0) & (held >= start - left_frames)
        self._mask = _additive(seen[:, None, None, :])

    def attend(self, layer: int, projected: Tensor) -> Tensor:
        """Store the keys and values of this chunk in the ring, and attend over the ring."""
        turning, value = projected.split((2, 1), dim=2)
        query, key = self._rotation(turning, self._angles).unbind(2)
        keys = self._window(self._keys[:, layer], key)
        values = self._window(self._values[:, layer], value.squeeze(2))
        return _attention(query, keys, values, self._mask)

    def _window(self, kept: Tensor, new: Tensor) -> Tensor:
        """Store the new ones, and return all that these slots have kept."""
        kept[self._slots.unsqueeze(1), :, self._ring_positions] = new
        return kept.index_select(0, self._slots)

    def with_past(self, layer: int, frames: Tensor) -> Tensor:
        """These frames after the last ones of their slots. The newest are kept for the next step."""
        kept = self._conv[:, layer]
        joined = torch.cat((kept.index_select(0, self._slots), frames), dim=1)
        kept.index_copy_(0, self._slots, joined[:, -kept.shape[1] :])
        return joined


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """`query` is [batch, frames, heads, size], as the result; `key` and `value` are [batch, heads, frames, size]."""
    # Written out, because the gradient of torch's fused kernel is four times slower in bfloat16 on a CPU.
    scores = (query.transpose(1, 2) * query.shape[-1] ** -0.5) @ key.transpose(-1, -2) + mask.to(query.dtype)
    return (scores.softmax(-1) @ value).transpose(1, 2)


def _additive(seen: Tensor) -> Tensor:
    """An additive mask: 0 where a frame is seen, minus infinity elsewhere."""
    return torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, -torch.inf)
