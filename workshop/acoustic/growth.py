"""Makes an acoustic model larger without changing its output, so that its training need not begin again."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import torch

from streamer.engine.acoustics.encoder_config import EncoderConfig, EncoderKind
from streamer.engine.networks.acoustic_network import AcousticNetwork
from workshop.data.corpus import CorpusError

_BLOCK: Final = re.compile(r"encoder\.blocks\.(?P<number>\d+)\.(?P<part>.*)")
_LAST: Final = ("before.3.", "after.3.", "attention.merge.", "convolution.merge.")
"""The matrices of a block whose results are added to the frames."""


@dataclass(frozen=True)
class Growth:
    """How many times as many blocks a model gets, and how wide their feed-forward networks become."""

    times: int
    feedforward: int


@torch.no_grad()
def grown(small: AcousticNetwork, growth: Growth) -> AcousticNetwork:
    """Return a larger model with the same output as `small`.

    New parts have random values, but at first they add nothing to the frames: their last matrix is zero.
    """
    description, encoder = small.description, small.description.encoder
    if not isinstance(encoder, EncoderConfig):
        raise CorpusError(f"only a {EncoderKind.CONFORMER.value} can grow, not an encoder like {encoder.kind.value}")
    times = growth.times
    if times < 1 or growth.feedforward < encoder.feedforward:
        raise CorpusError(f"a model grows by 1 or more times the blocks, and to {encoder.feedforward} or more numbers")
    outputs = tuple(replace(output, layer=output.layer * times) for output in encoder.outputs)
    shape = replace(encoder, outputs=outputs, layers=encoder.layers * times, feedforward=growth.feedforward)
    large = AcousticNetwork(replace(description, encoder=shape))
    old, new = small.state_dict(), large.state_dict()
    for name, values in new.items():
        block = _BLOCK.fullmatch(name)
        if block is None:
            values.copy_(old[name])
            continue
        number, part = int(block["number"]), block["part"]
        former = old[f"encoder.blocks.{number // times}.{part}"]
        if part.startswith("norm."):
            # Normalising twice changes nothing. So the last of these blocks has the old norm, and those before it have
            # fresh ones.
            if (number + 1) % times == 0:
                values.copy_(former)
            continue
        if part.startswith(_LAST):
            values.zero_()
        if number % times == 0:
            values[tuple(slice(size) for size in former.shape)] = former
    return large.to(small.device)
