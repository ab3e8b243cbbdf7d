"""Tunes the weights of the search on one half of a prepared set, evaluates them on the other half, and writes them.

    python scripts/train/tune_search.py --work PREPARED --cache FOLDER [--bundle asr_repo/streaming_asr/1] [--beam 192]

The log-probabilities of the phones' head at 320 ms are computed once and kept in the cache. Tuning minimises the mean
of the corpora's word error rates. The weights are written to the bundle's `search.json`, and other values there stay.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from functools import partial

from streamer.engine.bundle import LEXICON_FILE, SEARCH_FILE
from streamer.engine.language.language_model import LANGUAGE_FILE, LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.training.data.replaced_file import replacing
from streamer.training.search.corpus_errors import error_rates, halves, mean_over_corpora
from streamer.training.search.emission_cache import read_emissions
from streamer.training.search.search_arguments import run_script, search_arguments
from streamer.training.search.search_trials import run_beam
from streamer.training.search.weight_tuning import described, tune

STREAMS = 32


def main() -> int:
    """Tune and write; returns the exit status."""
    parser = search_arguments(__doc__)
    parser.add_argument("--beam", type=int, help="hypotheses of a stream (default: as in search.json)")
    return run_script(_tune, parser)


def _tune(options: argparse.Namespace) -> None:
    lexicon = Lexicon.load(options.bundle / LEXICON_FILE)
    language = LanguageModel.load(options.bundle / LANGUAGE_FILE)
    tuned_on, judged_on = halves(read_emissions(options.bundle, options.work, options.set, options.cache))

    def judge(trial: BeamOptions) -> float:
        return mean_over_corpora(error_rates(tuned_on, run_beam(tuned_on, lexicon, language, trial, STREAMS).words))

    path = options.bundle / SEARCH_FILE
    start = BeamOptions.load(path) if path.exists() else BeamOptions(language_weight=1.0, blank_penalty=1.0)
    if options.beam:
        start = replace(start, beam=options.beam)
    best = tune(judge, start, partial(print, flush=True))
    print(f"\nwith {described(best)}; word errors in %")
    for name, half in (("half it was tuned on", tuned_on), ("other half", judged_on)):
        rates = error_rates(half, run_beam(half, lexicon, language, best, STREAMS).words)
        print(f"{name:21s} " + "  ".join(f"{corpus} {rate:.1f}" for corpus, rate in rates.items()))
    with replacing(path, "w") as file:
        file.write(json.dumps(asdict(best), indent=1) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    sys.exit(main())
