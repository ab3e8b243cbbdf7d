"""Measures the start and end events of speech: false starts on other sounds, and missed and late starts on dev.

    python scripts/measure/activity.py --work PREPARED --bundle asr_repo/streaming_asr/1 [--sounds FOLDER] [--json FILE]

The recogniser runs with the bundle's activity head and without words, so only events of activity are measured. The
noise is the part that scripts/train/train_activity.py does not use, the synthetic sounds have other seeds, and the
speech is dev with pauses of 1.2 to 5 s. FOLDER may have recordings of further sounds, with a folder for each kind.
Recordings shorter than 2 s are played one after another with the rhythm of typing. The delay of a start is measured in
pieces of a quarter of a step, as the bridge sends the audio while nobody speaks.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from streamer.engine.acoustics.bundle_files import ACTIVITY_FILE, BundleError, read_description
from streamer.engine.networks.acoustic_network import read_activity
from workshop.activity.examples import AlignedSpeech
from workshop.activity.measurement import (
    CONDITIONS,
    STREAM_SECONDS,
    MeasuredDetector,
    opening_table,
    openings,
    sounds,
    start_table,
    starts,
)
from workshop.data.corpus import Corpus, CorpusError
from workshop.model_steps import add_step_option, own_step


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared and aligned speech")
    parser.add_argument("--bundle", type=Path, required=True, help="folder with activity.safetensors")
    parser.add_argument("--sounds", type=Path, help="folder of recorded sounds, with a folder for each kind")
    parser.add_argument("--minutes", type=float, default=9.0, help="minutes for each kind of sound and speech")
    add_step_option(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        head = read_activity(options.bundle)
        if head is None:
            raise BundleError(f"{options.bundle / ACTIVITY_FILE} is missing: run scripts/train/train_activity.py first")
        head.eval().requires_grad_(False)
        description = read_description(options.bundle)
        step_ms = own_step(options.step_ms, description.step_ms)
        detector = MeasuredDetector(head, description.encoder.frame_samples, step_ms)
        noise, speech = Corpus(options.work, "noise"), AlignedSpeech.read(options.work, "dev")
        streams = max(1, round(options.minutes * 60 / STREAM_SECONDS))
        quiet = [openings(detector, kind, sound) for kind, sound in sounds(noise, options.sounds, streams)]
        print(opening_table(quiet), flush=True)
        spoken = [starts(detector, speech, noise, condition, streams) for condition in CONDITIONS]
        print(start_table(spoken))
    except (BundleError, CorpusError, OSError) as error:
        print(f"measure_activity: {error}", file=sys.stderr)
        return 1
    if options.json:
        figures = {"openings": [asdict(row) for row in quiet], "starts": [asdict(row) for row in spoken]}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
