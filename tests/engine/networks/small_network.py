"""The description of an acoustic network that is small enough to compute in no time."""

from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.acoustics.encoder_config import CtcHead, EncoderConfig

ENCODER = EncoderConfig(outputs=(CtcHead("characters", 2, 3),), stem=8, width=16, layers=2, heads=2, feedforward=16)
DESCRIPTION = ModelDescription("test", ENCODER, {"characters": ["<blank>", "a", "b"]}, (160, 320, 640))
