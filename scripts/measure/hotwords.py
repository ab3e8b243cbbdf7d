"""Measures hotwords: the rare words that they recover, their false insertions, and the errors in other words.

    python scripts/measure/hotwords.py --work PREPARED --cache FOLDER [--bundle asr_repo/streaming_asr/1] [--tune]
    python scripts/measure/hotwords.py --manifest MANIFEST [--reader moonshine-tiny] [--limit 120]

A word of the references is rare if the lexicon does not have it, or if its probability in the language model is below
`--rare`. Each utterance gets its own rare words as hotwords, and some distractors: rare words that are not said in it.

The first command measures the search of the first pass. `--tune` chooses the default bonus (for weight 1) and the floor
of unknown words on one half of the utterances, and writes them to `search.json`. The printed figures are those of the
other half. The second command recognises recordings as a service does, with a second pass and, with `--reader`, with
this reader as well.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from streamer.base.text import counted
from streamer.commands.accuracy.engine_runner import EngineRunner
from streamer.commands.accuracy.manifest import ManifestError, read_manifest, select_utterances
from streamer.commands.accuracy.results import Unavailable
from streamer.engine.bundle import SEARCH_FILE
from streamer.engine.search.search import BeamOptions
from streamer.models.library import LibraryError
from streamer.models.readers import find_reader
from workshop.search.hotwords import Language, recognised, recognised_again, rows, tuned
from workshop.search.trials import halves, read_emissions, run_script, search_arguments

AT_ONCE = 8
DISTRACTORS = 10


def main() -> int:
    """Tune and measure; returns the exit status."""
    parser = search_arguments(__doc__, prepared=False)
    parser.add_argument(
        "--rare", type=float, default=3e-6, help="the highest probability of a rare word in the language model"
    )
    parser.add_argument("--beam", type=int, help="hypotheses of a stream (default: as in search.json)")
    parser.add_argument("--tune", action="store_true", help="choose bonus and floor, and write them to search.json")
    parser.add_argument("--every", type=int, default=1, help="use only every n-th utterance, to be quick")
    parser.add_argument("--manifest", type=Path, help="recordings to recognise, in place of prepared speech")
    parser.add_argument("--reader", metavar="NAME", help="with --manifest: a reader of this machine")
    parser.add_argument(
        "--corpus", action="append", default=[], help="with --manifest: only this corpus; several times"
    )
    parser.add_argument("--limit", type=int, help="with --manifest: at most so many recordings, spread evenly")
    options = parser.parse_args()
    if not options.manifest and not (options.work and options.cache):
        parser.error("give --manifest, or --work and --cache")
    return run_script(_measure_again if options.manifest else _measure, parser)


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
    for row in rows(second, rare, pool, partial(recognised, language=language, options=weights)):
        print(row, flush=True)


def _measure_again(options: argparse.Namespace) -> None:
    try:
        reader = find_reader(options.reader) if options.reader else None
        if options.reader and reader is None:
            raise ValueError(f"the reader {options.reader} is not on this machine")
        spoken = select_utterances(read_manifest(options.manifest), options.corpus, options.limit)
        rare, pool = Language.load(options.bundle).rare(spoken, options.rare)
        passes: list[tuple[str, object, Path | None]] = [("the second pass", True, None)]
        passes += [(options.reader, "reader", reader)] if reader else []
        for name, second_pass, weights in passes:
            print(f"{counted(len(spoken), 'recording')} with {name}", flush=True)
            runner = EngineRunner({"second_pass": second_pass}, at_once=AT_ONCE, bundle=options.bundle, reader=weights)
            for row in rows(spoken, rare, pool, recognised_again(runner), (DISTRACTORS,)):
                print(row, flush=True)
    except (ManifestError, LibraryError, Unavailable) as error:
        raise ValueError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
