"""Fits the corrections of times and confidences for a bundle, and writes its `calibration.json`.

    python scripts/train/calibrate.py --work PREPARED --cache FOLDER [--bundle BUNDLE] [--steps 320 20480]

The script needs PREPARED/SET.phones.jsonl from scripts/data/align_speech.py. It fits on the first half of the set,
separately for each search and each step length of the bundle. The longest step is the second pass. The correction of
times is the median distance between the found and the aligned starts and ends of right words. The probability that a
word is right comes from logistic regression. The second half is for evaluation. Emissions are computed once for each
step length, and kept in the cache. Run the script again after every change of the weights, the language model or the
search.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from workshop.search.calibration import calibrate
from workshop.search.trials import run_script, search_arguments


def main() -> int:
    """Fit, write, judge; returns the exit status."""
    parser = search_arguments(__doc__)
    parser.add_argument(
        "--steps", type=int, nargs="+", help="step lengths in milliseconds (default: all of the bundle)"
    )
    return run_script(_calibrate, parser)


def _calibrate(options: argparse.Namespace) -> None:
    tell = partial(print, flush=True)
    tables = calibrate(options.bundle, options.work, options.set, options.cache, options.steps, tell)
    print(f"\n{tables}")


if __name__ == "__main__":
    sys.exit(main())
