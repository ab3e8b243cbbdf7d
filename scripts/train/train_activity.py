"""Trains the activity head, which distinguishes speech from music, typing and noise, and writes it into a bundle.

    python scripts/train/train_activity.py --work PREPARED --bundle RUN/averaged [--minutes 6]
    python scripts/train/train_activity.py --work PREPARED --bundle RUN/averaged --start BUNDLE --rate 1e-3

PREPARED has the prepared and aligned `train`, and the noise (scripts/data/prepare_speech.py,
scripts/data/align_speech.py). Music, typing and similar sounds are synthesised. Noise for scripts/measure/activity.py
is left out. The training takes a few minutes of processor time on one core. The network has the frames of the encoder
of the bundle. Only `activity.safetensors` of the bundle is written.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import torch

from streamer.engine.acoustics.bundle_files import BundleError, read_description
from streamer.engine.networks.acoustic_network import read_activity, save_activity
from workshop.activity.examples import AlignedSpeech, ExampleSource, train
from workshop.activity.sounds import BackgroundSounds
from workshop.data.corpus import SAMPLE_RATE, Corpus, CorpusError

SECONDS = 10.24
CLIPS = 60
SYNTHETIC_SEED = 1


def main() -> int:
    """Train and write the head; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared and aligned speech")
    parser.add_argument("--bundle", type=Path, required=True, help="bundle that gets activity.safetensors")
    parser.add_argument("--start", type=Path, metavar="BUNDLE", help="go on with the head of this bundle")
    parser.add_argument("--minutes", type=float, default=6.0, help="minutes of processor time")
    parser.add_argument("--rows", type=int, default=12, help="examples per batch")
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        samples = int(SECONDS * SAMPLE_RATE)
        frame_samples = read_description(options.bundle).encoder.frame_samples
        background = BackgroundSounds(Corpus(options.work, "noise"), SYNTHETIC_SEED, CLIPS, samples)
        examples = ExampleSource(AlignedSpeech.read(options.work, "train"), background, samples, frame_samples)
        start = read_activity(options.start) if options.start else None
        if options.start and start is None:
            raise BundleError(f"{options.start} has no activity.safetensors")
    except (BundleError, CorpusError) as error:
        print(f"train_activity: {error}", file=sys.stderr)
        return 1
    tell = partial(print, flush=True)
    head = train(examples, options.minutes, options.rows, options.rate, options.seed, tell, start)
    save_activity(head, options.bundle)
    print(f"wrote {options.bundle / 'activity.safetensors'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
