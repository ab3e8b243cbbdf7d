"""Measures whether pauses cause word errors: utterances of dev are recognised alone, and joined with pauses.

    python scripts/measure/pauses.py --work PREPARED --bundle asr_repo/streaming_asr/1 [--utterances 60]

Only errors at the edges count: in the first two and the last two words of each utterance, and insertions beside them.
If a word is lost, doubled or split at the end of a segment, the joined utterance has an error at its edge that the same
utterance alone does not have.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.bundle import load_recogniser
from streamer.engine.endpointing import EndpointRule
from streamer.engine.stream_options import StreamOptions
from workshop.activity.pause_errors import TOGETHER, drawn, measure
from workshop.data.corpus import Corpus, CorpusError


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared speech")
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--utterances", type=int, default=60)
    parser.add_argument("--after-text-ms", type=int, default=EndpointRule.after_text_ms)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        corpus = Corpus(options.work, "dev")
        recogniser = load_recogniser(options.bundle, slots=TOGETHER, idle_limit_s=1e9)
    except (BundleError, CorpusError) as error:
        print(f"measure_pauses: {error}", file=sys.stderr)
        return 1
    rng = np.random.default_rng(options.seed)
    chosen = drawn(corpus, options.utterances, rng)
    print(measure(recogniser, corpus, chosen, StreamOptions(endpoint=EndpointRule(options.after_text_ms)), rng))
    return 0


if __name__ == "__main__":
    sys.exit(main())
