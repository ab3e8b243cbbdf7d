"""Which step a model takes for a usual one, and how many of its frames see one another."""

from __future__ import annotations

import argparse

import pytest

from streamer.base.limits import WHOLE_MS
from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.acoustics.encoder_config import CtcHead, EncoderConfig, MoonshineConfig
from workshop.data.corpus import CorpusError
from workshop.model_steps import add_step_option, frames_together, own_step

HEADS = (CtcHead("phones", 1, 2),)
UNITS = {"phones": ["<blank>", "|"]}
FEATURES = ModelDescription("features", EncoderConfig(HEADS, layers=1), UNITS, (160, 320, 640))
SAMPLES = ModelDescription("samples", MoonshineConfig(HEADS, layers=1), UNITS, (144, 336, 624))
SHORT = ModelDescription("short", MoonshineConfig(HEADS, layers=1, pooled=1, largest_chunk=27), UNITS, (168, 312, 648))


@pytest.mark.parametrize(
    ("description", "wanted_ms", "own_ms", "frames"),
    [
        (FEATURES, 160, 160, 4),
        (FEATURES, 640, 640, 16),
        (SAMPLES, 160, 144, 3),
        (SAMPLES, 320, 336, 7),
        (SAMPLES, 624, 624, 13),
        (SHORT, 320, 312, 13),
    ],
)
def test_a_usual_step_becomes_the_nearest_one(
    description: ModelDescription, wanted_ms: int, own_ms: int, frames: int
) -> None:
    """Whoever asks for a usual step gets that of the model; its own steps are known, too."""
    assert own_step(wanted_ms, description.step_ms) == own_ms
    assert frames_together(description, wanted_ms) == frames


def test_a_second_pass_has_the_frames_of_the_engine() -> None:
    """The frames of a whole segment are those with which the engine computes it."""
    for description, frames in ((FEATURES, 512), (SAMPLES, 426), (SHORT, 853)):
        assert frames_together(description, WHOLE_MS) == description.encoder.whole_frames == frames


def test_a_step_that_the_model_does_not_have() -> None:
    """The message has the steps of the model."""
    with pytest.raises(CorpusError, match="no step of 200 ms, but those of 144, 336, 624 ms"):
        own_step(200, SAMPLES.step_ms)
    with pytest.raises(CorpusError, match="no step of 336 ms"):
        frames_together(FEATURES, 336)


def test_the_option_takes_any_step() -> None:
    """Its default is the usual one."""
    parser = argparse.ArgumentParser()
    add_step_option(parser)
    assert [parser.parse_args(given).step_ms for given in ([], ["--step-ms", "144"])] == [320, 144]
