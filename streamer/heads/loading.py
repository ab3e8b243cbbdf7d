"""Loads the encoder and the heads from a bundle, each alone, as the steps of `asr_heads` need them."""

from __future__ import annotations

from pathlib import Path

import torch

from streamer.base.machine import give_back_freed_memory
from streamer.engine.acoustics.acoustic_model import ACTIVITY_FILE, BundleError, read_activity
from streamer.engine.bundle import (
    assemble_recogniser,
    best_precision,
    compile_steps,
    compiled_activity,
    computes_graphs,
    load_acoustic_model,
)
from streamer.engine.recogniser import Recogniser
from streamer.heads.activity_head import ActivityHead
from streamer.heads.speech_encoder import SpeechEncoder
from streamer.heads.transcript_head import EncodedAcoustics, FrameHeads


def load_speech_encoder(
    folder: Path | str, *, slots: int, device: torch.device | str = "cpu", idle_limit_s: float = 20.0
) -> SpeechEncoder:
    """Return the encoder alone. BundleError says what is wrong."""
    model = load_acoustic_model(Path(folder), device, best_precision(device))
    model.set_activity(None)
    if computes_graphs(device):
        compile_steps(model)
    give_back_freed_memory()
    return SpeechEncoder(model, slots=slots, idle_limit_s=idle_limit_s)


def load_activity_head(
    folder: Path | str, *, slots: int, device: torch.device | str = "cpu", idle_limit_s: float = 20.0
) -> ActivityHead:
    """Return the activity network alone. BundleError says what is wrong."""
    network = read_activity(Path(folder))
    if network is None:
        raise BundleError(f"{Path(folder) / ACTIVITY_FILE} is missing: there is no activity network")
    mels = len(network.mean)
    steps = compiled_activity(network) if computes_graphs(device) else network.to(device).eval().requires_grad_(False)
    return ActivityHead(steps, mels=mels, slots=slots, device=device, idle_limit_s=idle_limit_s)


def load_transcript_head(
    folder: Path | str, *, slots: int, device: torch.device | str = "cpu", idle_limit_s: float = 20.0
) -> Recogniser:
    """Return a recogniser that reads the frames of an encoder. BundleError says what is wrong."""
    folder = Path(folder)
    heads = FrameHeads(load_acoustic_model(folder, device, best_precision(device)))
    acoustics = EncodedAcoustics(heads)
    return assemble_recogniser(folder, heads, acoustics, None, slots=slots, device=device, idle_limit_s=idle_limit_s)
