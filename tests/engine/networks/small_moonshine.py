"""The description of a network that reads samples and is small enough to compute in no time."""

from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.acoustics.encoder_config import CtcHead, MoonshineConfig

CONFIG = MoonshineConfig(
    outputs=(CtcHead("phones_middle", 2, 4), CtcHead("phones", 3, 4), CtcHead("characters", 3, 3)),
    width=24,
    layers=3,
    heads=2,
    feedforward=32,
    rotated=8,
    left_frames=9,
    largest_chunk=13,
)
UNITS = {"phones_middle": ["<blank>", "|", "A", "B"], "phones": ["<blank>", "|", "A", "B"]}
DESCRIPTION = ModelDescription("test", CONFIG, {**UNITS, "characters": ["<blank>", "a", "b"]}, (144, 336, 624))
