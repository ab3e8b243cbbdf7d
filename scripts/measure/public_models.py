"""Compares public models in the recogniser with sherpa-onnx, token for token and frame for frame.

    .venv/bin/python scripts/measure/public_models.py                  500 streams of each family, small exact models
    .venv/bin/python scripts/measure/public_models.py FOLDER --streams 24     a model of your own

The models compute in whole numbers, so nothing but equality is right. Weights of your own are not exact: a few segments
may differ where two tokens are nearly as likely. The exit status is 0 only if no segment differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from streamer.testing.graphs.comparison import Comparison, compare
from streamer.testing.graphs.exact_zipformer2 import make_ctc_folder, make_transducer_folder

STREAMS_OF_A_MODEL = 50  # each group has a model with other weights


def main() -> int:
    """Compare, and print a line for each model."""
    parser = argparse.ArgumentParser(description="Compares public models with sherpa-onnx.")
    add = parser.add_argument
    add("folder", nargs="?", type=Path, help="the folder of a public model (small exact models of each family)")
    add("--streams", type=int, default=500, help="how many streams (500)")
    add("--seconds", type=float, default=6.0, help="the length of a stream, on average (6)")
    options = parser.parse_args()
    if options.folder:
        return _told("the folder", compare(options.folder, options.streams, seconds=options.seconds))
    status = 0
    for family, make in (("CTC", make_ctc_folder), ("transducer", make_transducer_folder)):
        total = Comparison(0)
        for seed in range(-(-options.streams // STREAMS_OF_A_MODEL)):
            number = min(STREAMS_OF_A_MODEL, options.streams - total.streams)
            with tempfile.TemporaryDirectory() as folder:
                found = compare(make(Path(folder), seed), number, seconds=options.seconds, seed=seed)
            total.streams += found.streams
            total.segments += found.segments
            total.tokens += found.tokens
            total.different += found.different
        status |= _told(family, total)
    return status


def _told(what: str, found: Comparison) -> int:
    print(
        f"{what}: {found.streams} streams, {found.segments} segments, {found.tokens} tokens, "
        f"{len(found.different)} segments differ",
        flush=True,
    )
    for segment, (tokens, frames) in found.different[:3]:
        print(f"  ours: {segment.tokens} {segment.frames}\n  sherpa-onnx: {tokens} {frames}")
    return int(bool(found.different))


if __name__ == "__main__":
    sys.exit(main())
