"""Makes the start of an acoustic model from the encoder of Moonshine: a network for streams with its weights.

The heads are new and have random weights, and so have the norm and the head in the middle. All else computes what
Moonshine computes, but that a frame does not see the whole utterance. Training makes up for that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import torch

from streamer.base.limits import STEPS_MS
from streamer.engine.acoustics.bundle_files import MODEL_FILE, ModelDescription
from streamer.engine.acoustics.encoder_config import STEM_SAMPLES, CtcHead, MoonshineConfig
from streamer.engine.acoustics.features import SAMPLE_RATE
from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.engine.networks.moonshine_encoder import MoonshineEncoder
from streamer.engine.reader.graphs import HEADS, ROTATED
from streamer.engine.reader.weights import Floats, ReaderWeights, UnknownReader, read_weights
from streamer.models.readers import find_reader
from workshop.acoustic import units
from workshop.data.corpus import CorpusError

MIDDLE: Final = "phones_middle"
CREDIT: Final = """\
The encoder of the acoustic model began from the weights of the encoder of Moonshine by Moonshine AI ("Moonshine: Speech
Recognition for Live Transcription and Voice Commands", 2024), which had heard some 200 000 hours of speech. They are
under the MIT licence, which this copy of them has to carry:

MIT License

Copyright (c) 2025 Moonshine AI

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
"""What the card of a model says that began from these weights."""


def reader_folder(reader: str) -> Path:
    """Return the folder of a reader that was fetched, or this folder. CorpusError or LibraryError if there is none."""
    folder = Path(reader) if Path(reader).is_dir() else find_reader(reader)
    if folder is None:
        raise CorpusError(f"{reader} is not on this machine: `streamer models get {reader}` fetches it")
    return folder


def start_from(folder: Path, *, pooled: int = 2) -> AcousticNetwork:
    """Return a network with the weights of the reader in this folder. CorpusError if they are of another kind.

    `pooled`: how many frames of Moonshine a frame has. The folder may also be a bundle that was made so before, which
    needs no onnxruntime.
    """
    if (folder / MODEL_FILE).is_file():
        made = AcousticNetwork.load(folder, activity=False)
        if made.reads_features:
            raise CorpusError(f"{folder} is a bundle, but its encoder does not read samples as Moonshine's does")
        return made.requires_grad_(True)
    try:
        weights = read_weights(folder)
    except UnknownReader as error:
        raise CorpusError(str(error)) from error
    network = AcousticNetwork(describe_start(weights, pooled))
    assert isinstance(network.encoder, MoonshineEncoder)
    with torch.no_grad():
        _fill(network.encoder, weights)
    return network


def describe_start(weights: ReaderWeights, pooled: int) -> ModelDescription:
    """Return a model with the shape of this encoder, its heads, and the steps nearest to the usual ones."""
    layers = weights.layers("encoder")
    names = {"phones": units.PHONE_UNITS, "characters": units.CHARACTERS, MIDDLE: units.PHONE_UNITS}
    middle = max(layers - 1, 1)  # where linear probes heard most
    outputs = tuple(
        CtcHead(head, middle if head == MIDDLE else layers, len(unit_names)) for head, unit_names in names.items()
    )
    frame_ms = STEM_SAMPLES * pooled * 1000 // SAMPLE_RATE
    chunks = [max(1, round(step_ms / frame_ms)) for step_ms in STEPS_MS]
    shape = MoonshineConfig(
        outputs,
        width=weights.width,
        layers=layers,
        heads=HEADS,
        feedforward=len(weights.other["encoder.layers.0.mlp.fc1.bias"]),
        rotated=min(ROTATED, weights.width // HEADS),
        pooled=pooled,
        left_frames=128 // pooled,
        largest_chunk=max(chunks),
    )
    return ModelDescription("streamer-en-2", shape, names, tuple(frame_ms * chunk for chunk in chunks))


def _fill(encoder: MoonshineEncoder, weights: ReaderWeights) -> None:
    own, other, linear = encoder.state_dict(), weights.other, weights.linear

    def give(name: str, values: Floats) -> None:
        own[name].copy_(torch.from_numpy(values.copy()))

    for name, theirs in (("norm", "groupnorm"), ("first", "conv1"), ("second", "conv2"), ("third", "conv3")):
        for kind in ("weight", "bias"):
            if f"stem.{name}.{kind}" in own:  # the first has no bias
                give(f"stem.{name}.{kind}", other[f"encoder.{theirs}.{kind}"])
    order = halves_of(weights.width, encoder.config.rotated)
    for number in range(encoder.config.layers):
        block, layer = f"blocks.{number}", f"encoder.layers.{number}"
        # The published weights are [inputs, outputs], those of torch the other way round.
        query, key, value, merge = (linear[f"{layer}.self_attn.{kind}_proj"].full().T for kind in "qkvo")
        give(f"{block}.attention.norm.weight", other[f"{layer}.input_layernorm.weight"])
        give(f"{block}.attention.project.weight", np.concatenate((query[order], key[order], value)))
        give(f"{block}.attention.merge.weight", merge)
        give(f"{block}.feed.0.weight", other[f"{layer}.post_attention_layernorm.weight"])
        for at, part in ((1, "fc1"), (3, "fc2")):
            give(f"{block}.feed.{at}.weight", linear[f"{layer}.mlp.{part}"].full().T)
            give(f"{block}.feed.{at}.bias", other[f"{layer}.mlp.{part}.bias"])
        for name in (
            "attention.norm",
            "attention.project",
            "attention.merge",
            "feed.0",
        ):  # Moonshine has no biases here
            own[f"{block}.{name}.bias"].zero_()
    give(f"norms.{encoder.config.layers}.weight", other["encoder.layer_norm.weight"])


def halves_of(width: int, rotated: int) -> list[int]:
    """Return the numbers of a query in the order in which ours are rotated.

    Positions rotate neighbours there, and here the first half of the numbers of a head with the second half. The
    numbers that they do not rotate are divided over the ends of both halves.
    """
    size = width // HEADS
    still = range(rotated, size)
    half = len(still) // 2
    own = [*range(0, rotated, 2), *still[:half], *range(1, rotated, 2), *still[half:]]
    return [head * size + number for head in range(HEADS) for number in own]
