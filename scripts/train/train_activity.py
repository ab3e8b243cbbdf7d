"""Train the activity head, which tells speech from music, keyboards and noise, and write it into a bundle.

    python scripts/train/train_activity.py --work PREPARED --bundle asr_repo/streaming_asr/1 [--minutes 6]

PREPARED holds the prepared and aligned `train` and the noise (scripts/data/prepare_speech.py,
scripts/data/align_speech.py). Music, keyboards and the like are synthesised. One core does it in a few
minutes of processor time. Noise that scripts/measure/activity.py measures with is left out.
Only `activity.pt` of the bundle is written.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from streamer.engine.models.acoustic_model import save_activity
from streamer.engine.models.activity_network import ActivityNetwork
from streamer.engine.models.features import CONTEXT, LogMel
from streamer.training.activity.scenes import Background, Scene, Stage, Voices
from streamer.training.data.corpus import SAMPLE_RATE, Corpus, CorpusError

SECONDS = 10.24
CLIPS = 60
MADE_SEED = 1
# What is said at a frame's end can be told a frame later: the rule that follows the head knows of the delay.
DELAY_FRAMES = 1
STATISTICS_SCENES = 48


def main() -> int:
    """Train and write the head; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared and aligned speech")
    parser.add_argument("--bundle", type=Path, required=True, help="folder that gets activity.pt")
    parser.add_argument("--minutes", type=float, default=6.0, help="of processor time")
    parser.add_argument("--rows", type=int, default=12, help="scenes a batch")
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        samples = int(SECONDS * SAMPLE_RATE)
        background = Background(Corpus(options.work, "noise"), MADE_SEED, CLIPS, samples)
        stage = Stage(Voices.read(options.work, "train"), background, samples)
    except CorpusError as error:
        print(f"train_activity: {error}", file=sys.stderr)
        return 1
    head = train(stage, options.minutes, options.rows, options.rate, options.seed)
    options.bundle.mkdir(parents=True, exist_ok=True)
    save_activity(head, options.bundle)
    print(f"wrote {options.bundle / 'activity.pt'}")
    return 0


def train(stage: Stage, minutes: float, rows: int, rate: float, seed: int) -> ActivityNetwork:
    """A head that has learnt for so many minutes of processor time; the rate falls to zero at their end."""
    torch.manual_seed(seed)
    dice, features, head = np.random.default_rng(seed), LogMel(), ActivityNetwork()
    energies, _ = _batch(features, [stage.scene(dice) for _ in range(STATISTICS_SCENES)])
    deviation, mean = torch.std_mean(energies.flatten(0, 1), dim=0)
    head.mean.copy_(mean)
    head.deviation.copy_(deviation)
    optimiser = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=0.01)
    step, begun, recent = 0, time.process_time(), 0.0
    while (progress := (time.process_time() - begun) / (60 * minutes)) < 1:
        energies, speech = _batch(features, [stage.scene(dice) for _ in range(rows)])
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 20) * min(1.0, (1 - progress) / 0.7)
        loss = _loss(head(energies), speech)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimiser.step()
        step += 1
        recent += (loss.item() - recent) / min(step, 25)
        if step % 25 == 0:
            print(f"step {step}, {100 * progress:.0f} %: loss {recent:.4f}", flush=True)
    return head.eval()


def _batch(features: LogMel, scenes: list[Scene]) -> tuple[Tensor, Tensor]:
    samples = torch.from_numpy(np.stack([scene.samples for scene in scenes])).float() / 32768
    speech = torch.from_numpy(np.stack([scene.speech for scene in scenes]))
    with torch.no_grad():
        energies = features.energies(functional.pad(samples, (CONTEXT, 0)))
    return energies, functional.pad(speech, (DELAY_FRAMES, 0))[:, : speech.shape[1]]


def _loss(found: Tensor, speech: Tensor) -> Tensor:
    said = found.squeeze(2)
    silent = torch.log(-torch.expm1(said.clamp(max=-1e-6)))
    return -(speech * said + (1 - speech) * silent).mean()


if __name__ == "__main__":
    sys.exit(main())
