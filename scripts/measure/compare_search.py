"""Compares our search with flashlight-text's streaming lexicon decoder: word errors and CPU time on the same emissions.

    python scripts/measure/compare_search.py --work PREPARED --cache FOLDER --arpa LANGUAGE.arpa

Both get the log-probabilities of the phones' head for the prepared set `dev`, in steps of eight frames. Both use the
bundle's lexicon and language model. Flashlight needs the language model as ARPA (`build_language_model.py --arpa`). The
weights of each search are tuned on one half of the set, with the second of the given beam sizes, and evaluated on the
other half. CPU time is that of the search alone, on one thread. The script needs `pip install flashlight-text`.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from streamer.training.comparison.flashlight import Comparison
from streamer.training.search.search_arguments import run_script, search_arguments


def main() -> int:
    """Compare and print the table; returns the exit status."""
    parser = search_arguments(__doc__)
    parser.add_argument("--arpa", type=Path, required=True, help="the bundle's language model as ARPA")
    parser.add_argument("--beams", type=int, nargs="+", default=[32, 64, 192], help="beam sizes of our search")
    parser.add_argument("--flashlight-beams", type=int, nargs="+", default=[50, 100, 200, 400])
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 32], help="streams at a time in our search")
    return run_script(_compare, parser)


def _compare(options: argparse.Namespace) -> None:
    comparison = Comparison(
        options.bundle,
        options.work,
        options.set,
        options.cache,
        options.arpa,
        options.beams,
        options.flashlight_beams,
        options.streams,
    )
    tell = partial(print, flush=True)
    try:
        for line in comparison.lines(tell):
            tell(line)
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}: pip install flashlight-text") from error


if __name__ == "__main__":
    sys.exit(main())
