"""Measures the end of turns: how many turns are cut in two, and how late the final comes after the last word.

    python scripts/measure/turns.py --work PREPARED --bundle asr_repo/streaming_asr/1 [--step-ms 320] [--half second]

A turn is an utterance of dev. It is recognised as it was spoken, with the pauses of its speaker, and once more with a
further pause of 200 to 1500 ms between two of its words. The delay is the time from the end of the last word, as an
independent aligner found it, to the end of the audio that was needed for the final. The time for computing does not
count.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

from streamer.commands.accuracy.manifest import HALVES, half
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.bundle import load_recogniser
from streamer.engine.model_file import ModelFileError
from streamer.engine.text.punctuation_model import PunctuationModel
from workshop.data.alignment import read_alignments
from workshop.data.corpus import Corpus, CorpusError
from workshop.model_steps import add_step_option, own_step
from workshop.turns import TOGETHER, figures, record, rules, spoken_turns, table


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared and aligned speech")
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--turns", type=int, help="this many turns, chosen at random (default: all)")
    parser.add_argument("--half", choices=HALVES, help="only this half; the rule was chosen on the first half")
    add_step_option(parser)
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        corpus, alignments = Corpus(options.work, "dev"), read_alignments(options.work, "dev")
        recogniser = load_recogniser(options.bundle, slots=TOGETHER)
        step_ms = own_step(options.step_ms, recogniser.model.step_ms)
        judge = PunctuationModel.load(options.bundle).over
    except (BundleError, CorpusError, ModelFileError) as error:
        print(f"measure_turns: {error}", file=sys.stderr)
        return 1
    turns = spoken_turns(corpus, alignments, options.turns, np.random.default_rng(options.seed))
    turns = [turn for turn in turns if options.half in (None, half(turn.name))]
    recorded = list(record(turns, recogniser.model, recogniser.searches["lexicon"], step_ms))
    print(f"{len(turns) // 2} turns, steps of {step_ms} ms\n")
    print(table([figures(name, rule, recorded, judge) for name, rule in rules()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
