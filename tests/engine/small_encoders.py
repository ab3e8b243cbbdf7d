"""Small untrained encoders of each kind, with what they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from streamer.engine.acoustics.encoder_config import (
    STEM_CONTEXT,
    SUBSAMPLING,
    AnyEncoder,
    CtcHead,
    EncoderConfig,
    MoonshineConfig,
)
from streamer.engine.acoustics.streaming_model import Floats, ModelState, SlotNetwork
from streamer.engine.networks.acoustic_network import encoder_of
from streamer.engine.networks.encoder import Encoder
from streamer.engine.networks.moonshine_encoder import ChannelScale, MoonshineEncoder
from tests.engine.networks.small_moonshine import CONFIG


@dataclass(frozen=True)
class SmallEncoder:
    """An encoder of this shape, and how it is fed."""

    config: AnyEncoder

    def network(self) -> Encoder | MoonshineEncoder:
        """Return it with random weights, also of the layers that scale."""
        torch.manual_seed(0)
        made = encoder_of(self.config).eval().requires_grad_(False)
        for module in made.modules():
            if isinstance(module, torch.nn.LayerNorm | ChannelScale):
                module.weight.normal_(1, 0.2)
                module.bias.normal_(0, 0.2)
        return made

    @property
    def context(self) -> int:
        """How many inputs before a step are among those of the step."""
        return STEM_CONTEXT if isinstance(self.config, MoonshineConfig) else 0

    @property
    def per_frame(self) -> int:
        """How many inputs a frame has."""
        return self.config.frame_samples if isinstance(self.config, MoonshineConfig) else SUBSAMPLING

    def inputs(self, streams: int, frames: int, seed: int = 1) -> Floats:
        """Return random features or samples for this many frames."""
        shape, dice = (streams, self.context + self.per_frame * frames), np.random.default_rng(seed)
        if isinstance(self.config, MoonshineConfig):
            return 0.1 * dice.standard_normal(shape).astype(np.float32)
        return dice.standard_normal((*shape, self.config.mels)).astype(np.float32)

    def stream(
        self, network: SlotNetwork, state: ModelState, slots: Sequence[int], inputs: Floats, chunk: int
    ) -> Floats:
        """Return the frames of these inputs, chunk by chunk."""
        size = self.per_frame * chunk
        parts = [
            inputs[:, first : first + self.context + size] for first in range(0, inputs.shape[1] - self.context, size)
        ]
        return np.concatenate([network.step(state, slots, part) for part in parts], axis=1)


CONFORMER = SmallEncoder(
    EncoderConfig(
        outputs=(CtcHead("characters", 3, 5),), stem=16, width=32, layers=3, heads=2, feedforward=48, left_frames=24
    )
)
MOONSHINES = [SmallEncoder(replace(CONFIG, pooled=pooled, left_frames=24, largest_chunk=16)) for pooled in (1, 2)]
