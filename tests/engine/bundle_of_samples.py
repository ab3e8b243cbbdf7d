"""A bundle whose encoder reads samples, so that its frames and steps are not those of the shipped one."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.acoustics.encoder_config import CtcHead, MoonshineConfig
from streamer.engine.networks.acoustic_network import AcousticNetwork
from tests.project import BUNDLE
from workshop.acoustic import units

STEPS_MS = {1: (168, 312, 648), 2: (144, 336, 624)}
"""The steps, by how many frames of 24 ms become one."""


def bundle_of_samples(folder: Path, pooled: int = 2) -> Path:
    """Write the shipped bundle with another encoder, which is small and has random weights."""
    shutil.copytree(BUNDLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    torch.manual_seed(4)
    names = {"phones": units.PHONE_UNITS, "characters": units.CHARACTERS}
    outputs = tuple(CtcHead(head, 2, len(own)) for head, own in names.items())
    sizes = {"width": 48, "layers": 2, "heads": 4, "feedforward": 64, "rotated": 8}
    shape = MoonshineConfig(outputs, **sizes, pooled=pooled, left_frames=20, largest_chunk=28 // pooled)
    network = AcousticNetwork(ModelDescription("test", shape, names, STEPS_MS[pooled]))
    weights = network.state_dict()
    for head in names:
        weights[f"encoder.outputs.{head}.weight"].mul_(6)  # so that frames differ in their likeliest units
        weights[f"encoder.outputs.{head}.bias"][units.BLANK] += 3
    weights["encoder.outputs.characters.bias"][units.CHARACTERS.index(" ")] += 3
    network.save(folder)
    return folder
