"""An encoder in torch that reads samples and begins from Moonshine's weights, made for streams.

Moonshine reads a whole utterance: it normalises by all of it, and each frame sees all others. Here the statistics are
those of the segment so far, and a frame sees its own chunk and a bounded past. Otherwise the blocks compute what
Moonshine's compute, with biases that it does not have.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.acoustics.encoder_config import (
    LOUDNESS_FLOOR,
    LOUDNESS_PRIOR,
    OVERLAP,
    STEM_CONTEXT,
    STEM_KERNELS,
    STEM_STRIDES,
    CtcHead,
    MoonshineConfig,
)
from streamer.engine.acoustics.streaming_model import Emissions, ModelState
from streamer.engine.networks.encoder import (
    BlockContext,
    FeedForward,
    RotaryPosition,
    SelfAttention,
    StepContext,
    UtteranceContext,
    output_layers,
)


class MoonshineEncoder(nn.Module):
    """Computes the log-probabilities of every head from samples."""

    def __init__(self, config: MoonshineConfig) -> None:
        super().__init__()
        self.config = config
        self.stem = SampleStem(config)
        self.blocks = nn.ModuleList(TransformerBlock(config, layer) for layer in range(config.layers))
        # The frames between blocks are not normalised, so the heads of each layer that has some read them after a norm.
        read = sorted({output.layer for output in config.outputs} | {config.layers})
        self.norms = nn.ModuleDict({str(layer): nn.LayerNorm(config.width) for layer in read})
        self.outputs = output_layers(config)
        self.rotation = RotaryPosition(config.rotation_tables)

    def forward(
        self,
        samples: Tensor,
        lengths: Tensor,
        chunk_frames: int = 0,
        left_frames: int | None = None,
        kept: Tensor | None = None,
    ) -> Emissions:
        """Return the log-probabilities of whole utterances.

        `samples` is [batch, STEM_CONTEXT + the samples of all frames]; `lengths` counts frames; `chunk_frames` 0 means
        one chunk as long as the utterance; `left_frames` limits the past before a chunk, and None means all of it.
        `kept` has 0 for frames that are masked in training, [batch, frames].
        """
        frames, context = self._begin(samples, lengths, chunk_frames, left_frames, kept)
        emissions: Emissions = {}
        for layer, block in enumerate(self.blocks, start=1):
            frames = block(frames, context)
            if self.config.heads_of(layer):
                emissions |= self.emissions(self._read(frames, layer), layer)
        return emissions

    def frames(self, samples: Tensor, lengths: Tensor, chunk_frames: int, left_frames: int) -> Tensor:
        """Return the frames of whole utterances, as `step` gives them."""
        return self._through(*self._begin(samples, lengths, chunk_frames, left_frames, None))

    def whole(self, samples: Tensor) -> Tensor:
        """Return the frames of a complete segment, [1, frames, width]. They are computed in the longest chunks."""
        lengths = torch.tensor([(samples.shape[1] - STEM_CONTEXT) // self.config.frame_samples], device=samples.device)
        return self.frames(samples, lengths, self.config.whole_frames, self.config.left_frames)

    @property
    def dtype(self) -> torch.dtype:
        """The number format in which it computes."""
        return next(self.blocks.parameters()).dtype

    def lower(self, dtype: torch.dtype) -> None:
        """Compute in this number format, but for the first convolution and the statistics, which need all bits."""
        self.to(dtype)
        self.stem.first.float()
        self.stem.level.data = self.stem.level.data.float()

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        config = self.config
        like = next(self.blocks.parameters())
        ring = (config.left_frames + config.largest_chunk) * config.pooled
        shape = (slots, config.layers, config.heads, ring, config.width // config.heads)
        return {
            "keys": like.new_zeros(shape),
            "values": like.new_zeros(shape),
            "loudness": like.new_zeros(slots, 3, dtype=torch.float32),
            "frames": torch.zeros(slots, dtype=torch.int64, device=like.device),
        }

    def step(self, state: ModelState, slots: Tensor, samples: Tensor) -> Tensor:
        """Return the next frames of each slot, [batch, chunk, width]: `samples` has those before them, too."""
        config = self.config
        chunk = config.frames_of(samples.shape[1] - STEM_CONTEXT) * config.pooled
        frames, heard = self.stem(samples, state["loudness"].index_select(0, slots))
        state["loudness"].index_copy_(0, slots, heard)
        context = StepContext(self.rotation, config.left_frames * config.pooled, state, slots, chunk)
        output = self._through(frames, context)
        state["frames"].index_add_(0, slots, torch.full_like(slots, chunk))
        return output

    def emissions(self, frames: Tensor, layer: int | None = None) -> Emissions:
        """Return the log-probabilities of the heads that read this layer, by default the last one."""
        heads: list[CtcHead] = self.config.heads_of(layer or self.config.layers)
        return {output.name: self.outputs[output.name](frames).float().log_softmax(-1) for output in heads}

    def _begin(
        self, samples: Tensor, lengths: Tensor, chunk_frames: int, left_frames: int | None, kept: Tensor | None
    ) -> tuple[Tensor, BlockContext]:
        pooled = self.config.pooled
        frames, _ = self.stem(samples, samples.new_zeros(len(samples), 3))
        if kept is not None:
            frames = frames * kept.repeat_interleave(pooled, 1).unsqueeze(2)
        left = None if left_frames is None else left_frames * pooled
        context = UtteranceContext(self.rotation, 0, frames.shape[1], lengths * pooled, chunk_frames * pooled, left)
        return frames, context

    def _through(self, frames: Tensor, context: BlockContext) -> Tensor:
        for block in self.blocks:
            frames = block(frames, context)
        return self._read(frames, self.config.layers)

    def _read(self, frames: Tensor, layer: int) -> Tensor:
        """Return the frames of a layer as its heads read them: normalised, and several side by side."""
        normed: Tensor = self.norms[str(layer)](frames)
        return normed.unflatten(1, (-1, self.config.pooled)).flatten(2)


class SampleStem(nn.Module):
    """Makes frames of samples, with three convolutions that only look back."""

    level: Tensor

    def __init__(self, config: MoonshineConfig) -> None:
        super().__init__()
        width = config.width
        self.first = WindowedLayer(1, width, STEM_KERNELS[0], STEM_STRIDES[0], bias=False)
        self.norm = ChannelScale(width)
        self.second = WindowedLayer(width, 2 * width, STEM_KERNELS[1], STEM_STRIDES[1])
        self.third = WindowedLayer(2 * width, width, STEM_KERNELS[2], STEM_STRIDES[2])
        # The mean of what the first convolution gives for usual speech, and the mean of its square.
        self.register_buffer("level", torch.tensor([0.0, 0.0055]))

    def forward(self, samples: Tensor, heard: Tensor) -> tuple[Tensor, Tensor]:
        """Compute [batch, frames, width] from [batch, STEM_CONTEXT + samples].

        `heard` and its new value are the sums over the segment so far: of frames, of what the first convolution gives,
        and of its square.
        """
        with torch.autocast(samples.device.type, enabled=False):
            hidden = self._heard(samples)
            ones = torch.ones_like(hidden[:, :, 0])
            sums = torch.stack((ones, hidden.mean(2), hidden.square().mean(2)), 2).cumsum(1) + heard.unsqueeze(1)
            after = sums[:, -1 - OVERLAP]
            count = sums[:, :, :1] + LOUDNESS_PRIOR
            mean = (sums[:, :, 1:2] + LOUDNESS_PRIOR * self.level[0]) / count
            square = (sums[:, :, 2:] + LOUDNESS_PRIOR * self.level[1]) / count
            hidden = (hidden - mean) * torch.rsqrt(square - mean.square() + LOUDNESS_FLOOR)
        hidden = self.norm(hidden.to(self.second.weight.dtype))
        hidden = functional.gelu(self.second(hidden))
        frames: Tensor = functional.gelu(self.third(hidden))
        return frames, after

    def levels(self, samples: Tensor) -> Tensor:
        """Return the mean of what the first convolution gives for each row, and the mean of its square."""
        hidden = self._heard(samples).flatten(1)
        return torch.stack((hidden.mean(1), hidden.square().mean(1)), 1)

    def _heard(self, samples: Tensor) -> Tensor:
        return torch.tanh(self.first(samples.float().unsqueeze(2)))


class ChannelScale(nn.Module):
    """Scales and moves each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, frames: Tensor) -> Tensor:
        """Scale [batch, frames, width]."""
        return frames * self.weight + self.bias


class WindowedLayer(nn.Conv1d):
    """A convolution with the channels last, computed as one product of rows.

    cuDNN would plan anew for every length, and the bits of a frame do not depend on the rest of the batch.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, *, bias: bool = True) -> None:
        super().__init__(inputs, outputs, kernel, stride, bias=bias)

    def forward(self, frames: Tensor) -> Tensor:
        """Compute [batch, windows, outputs] from [batch, frames, inputs]."""
        windows = frames.unfold(1, self.kernel_size[0], self.stride[0])
        return functional.linear(windows.flatten(2), self.weight.flatten(1), self.bias)


class TransformerBlock(nn.Module):
    """One block: attention, and a feed-forward network."""

    def __init__(self, config: MoonshineConfig, layer: int) -> None:
        super().__init__()
        self.attention = SelfAttention(config, layer)
        self.feed = FeedForward(config, nn.GELU)

    def forward(self, frames: Tensor, context: BlockContext) -> Tensor:
        """Compute frames from frames, both [batch, frames, width]."""
        frames = frames + self.attention(frames, context)
        output: Tensor = frames + self.feed(frames)
        return output
