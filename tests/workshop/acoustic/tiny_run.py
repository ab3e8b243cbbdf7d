"""A run that is small enough for tests: a tiny model, and noise in place of speech."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.acoustics.encoder_config import CtcHead, EncoderConfig
from streamer.engine.networks.acoustic_network import AcousticNetwork
from workshop.acoustic import units
from workshop.acoustic.augmentation import Augmentation, Conditions
from workshop.acoustic.batches import Batches, Recipe
from workshop.acoustic.losses import Schedule
from workshop.acoustic.trainer import Trainer
from workshop.data.alignment import Alignment
from workshop.data.corpus import Corpus, Utterance, write_corpus

CPU = torch.device("cpu")
# Not narrower: in bfloat16 oneDNN never returns from a depthwise convolution of 16 channels over 51 frames.
ENCODER = EncoderConfig(
    outputs=(
        CtcHead("phones", 2, len(units.PHONE_UNITS)),
        CtcHead("characters", 2, len(units.CHARACTERS)),
        CtcHead("phones_middle", 1, len(units.PHONE_UNITS)),
    ),
    stem=8,
    width=32,
    layers=2,
    heads=2,
    feedforward=16,
)
FRAME = ENCODER.frame_samples
NAMES = {"phones": units.PHONE_UNITS, "characters": units.CHARACTERS, "phones_middle": units.PHONE_UNITS}


def aligned(name: str) -> Alignment:
    """Return the words "a cat" with times."""
    phones = [("AH", 200, 100, 0), ("K", 300, 80, 1), ("AE", 380, 120, 1), ("T", 500, 100, 1)]
    return Alignment(name, True, -10.0, [("a", 200, 100), ("cat", 300, 300)], phones)


def make_work(folder: Path) -> Path:
    """Write prepared sets with noise in place of speech."""
    rng = np.random.default_rng(0)
    for name, number in (("train", 12), ("noise", 2), ("rooms", 1)):
        recordings = [
            (
                Utterance(f"{name}{i}", 0, 0, "x", "s", "a cat"),
                rng.integers(-900, 900, 16000 + 800 * i).astype(np.int16),
            )
            for i in range(number)
        ]
        write_corpus(folder, name, recordings)
    return folder


def batches(work: Path, recipe: Recipe | None = None) -> Batches:
    """Return the batches of the prepared set."""
    corpus = Corpus(work, "train")
    alignments = {utterance.name: aligned(utterance.name) for utterance in corpus.utterances}
    return Batches(corpus, alignments, 1, recipe or Recipe(seconds=4.0), CPU, FRAME)


def trainer(
    work: Path,
    minutes: float,
    conditions: Conditions | None = None,
    usual_last: float = 0.0,
    schedule: Schedule | None = None,
) -> Trainer:
    """Make a tiny run."""
    torch.manual_seed(0)
    augmentation = Augmentation(Corpus(work, "noise"), Corpus(work, "rooms"), CPU, conditions)
    model = AcousticNetwork(ModelDescription("test", ENCODER, NAMES, (320,)))
    usual = Schedule(minutes, rise_steps=2, aligned_steps=2, crossfade_steps=2, usual_last=usual_last)
    return Trainer(model, batches(work), augmentation, schedule or usual, 1, torch.float32)
