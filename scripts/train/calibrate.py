"""Fit the corrections of times and confidences for a bundle, and write `calibration.json` into it.

    python scripts/train/calibrate.py --work PREPARED --cache FOLDER [--bundle BUNDLE] [--steps 160 320 640]

Needs PREPARED/SET.phones.jsonl of scripts/data/align_speech.py. On the first half of the set, for each search and step:
the median distance of the starts and ends of rightly found words from the alignment, and by logistic regression how
likely a word is right. The second half is judged. Emissions are computed once for each step and kept in the cache:
run it again after every change of the weights, the language model or the search.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from streamer.training.search.calibration_fitting import calibrate
from streamer.training.search.search_arguments import run_script, search_arguments


def main() -> int:
    """Fit, write, judge; returns the exit status."""
    parser = search_arguments(__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[160, 320, 640], help="milliseconds")
    return run_script(_calibrate, parser)


def _calibrate(options: argparse.Namespace) -> None:
    tell = partial(print, flush=True)
    tables = calibrate(options.bundle, options.work, options.set, options.cache, options.steps, tell)
    print(f"\n{tables}")


if __name__ == "__main__":
    sys.exit(main())
