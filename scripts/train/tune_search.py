"""Tunes the weights of the search on one half of a prepared set, evaluates them on the other half, and writes them.

    python scripts/train/tune_search.py --work PREPARED --cache FOLDER [--bundle asr_repo/streaming_asr/1] [--beam 192]

The log-probabilities of the phones' head in steps of the usual length are computed once and kept in the cache. Tuning
minimises the mean of the corpora's word error rates. The weights are written to the bundle's `search.json`, and other
values there stay. If the bundle has a neural language model for rescoring, its weights are tuned too (with --rescoring,
only those).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE, load_rescorer
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.search import BeamOptions
from workshop.search.trials import (
    RESCORING,
    TUNED,
    EmittedUtterance,
    described,
    error_rates,
    halves,
    mean_over_corpora,
    read_emissions,
    run_beam,
    run_script,
    search_arguments,
    tune,
)

STREAMS = 32


def main() -> int:
    """Tune and write; returns the exit status."""
    parser = search_arguments(__doc__)
    parser.add_argument("--beam", type=int, help="hypotheses of a stream (default: as in search.json)")
    parser.add_argument("--rescoring", action="store_true", help="tune only the weights of the neural language model")
    return run_script(_tune, parser)


def _tune(options: argparse.Namespace) -> None:
    lexicon = Lexicon.load(options.bundle / LEXICON_FILE)
    language = LanguageModel.load(options.bundle / LANGUAGE_FILE)
    rescorer = load_rescorer(options.bundle, language)
    tuned_on, judged_on = halves(read_emissions(options.bundle, options.work, options.set, options.cache))

    def rates(spoken: Sequence[EmittedUtterance], trial: BeamOptions) -> dict[str, float]:
        return error_rates(spoken, run_beam(spoken, lexicon, language, trial, STREAMS, rescorer).words)

    def judge(trial: BeamOptions) -> float:
        return mean_over_corpora(rates(tuned_on, trial)) if 0 < trial.neural_share <= 1 else math.inf

    path = options.bundle / SEARCH_FILE
    start = BeamOptions.load(path) if path.exists() else BeamOptions(language_weight=1.0, blank_penalty=1.0)
    if options.beam:
        start = replace(start, beam=options.beam)
    tuned = RESCORING if options.rescoring else TUNED | (RESCORING if rescorer else {})
    best = tune(judge, start, partial(print, flush=True), tuned)
    print(f"\nwith {described(best, tuned)}; word errors in %")
    for name, half in (("half it was tuned on", tuned_on), ("other half", judged_on)):
        print(f"{name:21s} {_listed(rates(half, best))}")
    best.save(path)
    print(f"wrote {path}")


def _listed(rates: dict[str, float]) -> str:
    return "  ".join(f"{corpus} {rate:.1f}" for corpus, rate in rates.items())


if __name__ == "__main__":
    sys.exit(main())
