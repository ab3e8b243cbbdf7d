"""The frames of the encoder for aligned speech, with the keywords in it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.acoustics.encoder_config import AnyEncoder, CtcHead, EncoderConfig, MoonshineConfig
from streamer.engine.networks.acoustic_network import AcousticNetwork
from tests.workshop.prepared_speech import prepare_speech
from workshop.acoustic import units
from workshop.keywords.training import AlignedWords

HEADS = (CtcHead("phones", 1, len(units.PHONE_UNITS)),)
SMALL = {"width": 16, "layers": 1, "heads": 2, "feedforward": 16}
FEATURES = EncoderConfig(HEADS, stem=8, **SMALL)
SAMPLES = MoonshineConfig(HEADS, rotated=8, **SMALL)
SHORT = MoonshineConfig(HEADS, rotated=8, pooled=1, **SMALL)


@pytest.mark.parametrize(
    ("encoder", "step_ms", "frame"), [(FEATURES, 320, 640), (SAMPLES, 336, 768), (SHORT, 312, 384)]
)
def test_keywords_end_in_frames_of_the_model(tmp_path: Path, encoder: AnyEncoder, step_ms: int, frame: int) -> None:
    """A keyword ends in the frame that has its last sample, in a model of any kind, and frames are those of a step."""
    torch.manual_seed(0)
    model = AcousticNetwork(ModelDescription("test", encoder, {"phones": units.PHONE_UNITS}, (step_ms,))).eval()
    words = AlignedWords(prepare_speech(tmp_path), "dev", "dev.phones.jsonl")
    chosen = words.utterances()
    keyword = words.words[chosen[0].name][3]
    for one in chosen[:2]:
        [spoken] = words.spoken([one], [keyword[0]], model)
        ends = [begins + lasts for word, begins, lasts in words.words[one.name] if word == keyword[0]]
        assert [each.end for each in spoken.keywords] == [end * 16 // frame for end in ends]
        assert spoken.hours * 3600 == pytest.approx(one.seconds + 0.6, abs=frame / 16_000)
        assert spoken.frames.shape[1] == encoder.frame_width
