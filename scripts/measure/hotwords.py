"""Measures hotwords: the rare words that they recover, their false insertions, and the errors in other words.

    python scripts/measure/hotwords.py --work PREPARED --cache FOLDER [--bundle asr_repo/streaming_asr/1] [--tune]

A word of the references is rare if the lexicon does not have it, or if its probability in the language model is below
`--rare`. Each utterance gets its own rare words as hotwords, and some distractors: rare words that are not said in it.
`--tune` chooses the default bonus (for weight 1) and the floor of unknown words on one half of the utterances, and
writes them to `search.json`. The printed figures are those of the other half.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial

from streamer.engine.bundle import SEARCH_FILE
from streamer.engine.search.search import BeamOptions
from workshop.search.hotwords import Language, rows, tuned
from workshop.search.trials import halves, read_emissions, run_script, search_arguments


def main() -> int:
    """Tune and measure; returns the exit status."""
    parser = search_arguments(__doc__)
    parser.add_argument(
        "--rare", type=float, default=3e-6, help="the highest probability of a rare word in the language model"
    )
    parser.add_argument("--beam", type=int, help="hypotheses of a stream (default: as in search.json)")
    parser.add_argument("--tune", action="store_true", help="choose bonus and floor, and write them to search.json")
    parser.add_argument("--every", type=int, default=1, help="use only every n-th utterance, to be quick")
    return run_script(_measure, parser)


def _measure(options: argparse.Namespace) -> None:
    language = Language.load(options.bundle)
    path = options.bundle / SEARCH_FILE
    weights = BeamOptions.load(path)
    if options.beam:
        weights = replace(weights, beam=options.beam)
    spoken = read_emissions(options.bundle, options.work, options.set, options.cache)
    rare, pool = language.rare(spoken, options.rare)
    new = sorted(rare - set(language.model.words))
    print(f"{len(rare)} rare words, {len(new)} of them not in the lexicon: {' '.join(sorted(rare))}", flush=True)
    first, second = (half[:: options.every] for half in halves(spoken))
    if options.tune:
        weights = tuned(first, rare, pool, language, weights, partial(print, flush=True))
        weights.save(path)
        print(f"wrote {path}")
    print(f"bonus {weights.hotword_bonus:g}, floor {weights.hotword_floor:g}; the other half")
    for row in rows(second, rare, pool, language, weights):
        print(row, flush=True)


if __name__ == "__main__":
    sys.exit(main())
