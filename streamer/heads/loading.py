"""Loads the encoder and the heads from a bundle, each alone, as the steps of `asr_heads` need them."""

from __future__ import annotations

from pathlib import Path

from streamer.base.machine import give_back_freed_memory
from streamer.base.torch_import import CPU
from streamer.engine.acoustics.activity import ActivityRule
from streamer.engine.acoustics.bundle_files import read_description
from streamer.engine.bundle import (
    assemble_recogniser,
    load_acoustic_model,
    load_activity_network,
    load_frame_reader,
)
from streamer.engine.recogniser import Recogniser
from streamer.heads.activity_head import ActivityHead
from streamer.heads.speech_encoder import SpeechEncoder
from streamer.heads.transcript_head import EncodedAcoustics, FrameHeads


def load_speech_encoder(
    folder: Path | str, *, slots: int, device: str = CPU, idle_limit_s: float = 20.0
) -> SpeechEncoder:
    """Return the encoder alone. BundleError says what is wrong."""
    model = load_acoustic_model(Path(folder), device, activity=False)
    give_back_freed_memory()
    return SpeechEncoder(model, slots=slots, idle_limit_s=idle_limit_s)


def load_activity_head(
    folder: Path | str, *, slots: int, device: str = CPU, idle_limit_s: float = 20.0
) -> ActivityHead:
    """Return the activity network alone. BundleError says what is wrong."""
    rule = ActivityRule(frame_ms=read_description(Path(folder)).encoder.frame_ms)
    mels, network = load_activity_network(Path(folder), device)
    return ActivityHead(network, mels=mels, slots=slots, rule=rule, idle_limit_s=idle_limit_s)


def load_transcript_head(
    folder: Path | str, *, slots: int, device: str = CPU, idle_limit_s: float = 20.0
) -> Recogniser:
    """Return a recogniser that reads the frames of an encoder. BundleError says what is wrong."""
    folder = Path(folder)
    heads = FrameHeads(*load_frame_reader(folder, device))
    acoustics = EncodedAcoustics(heads)
    return assemble_recogniser(folder, heads, acoustics, None, slots=slots, device=device, idle_limit_s=idle_limit_s)
