"""Find the times of every word and phone of the prepared speech, by PocketSphinx or by our own model.

    python scripts/data/align_speech.py --work PREPARED train dev
    python scripts/data/align_speech.py --work PREPARED --by BUNDLE train

writes PREPARED/NAME.phones.jsonl, one utterance a line: words as [word, start ms, length ms] and phones as
[phone, start ms, length ms, number of its word]. Where no alignment is found `aligned` is false and the phones
are the dictionary's, without times. PocketSphinx takes 40 minutes for 20 hours on two cores.

With --by it writes PREPARED/NAME.heard.jsonl: the pronunciations that this bundle's model hears, with rough times.
Training prefers them, and they take minutes. Times are never judged by them.

Both can be stopped at any moment, and continue there the next time.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from streamer.engine.models.acoustic_model import BundleError
from streamer.training.data.corpus import CorpusError
from streamer.training.data.forced_alignment import align
from streamer.training.phones import model_alignment


def main() -> int:
    """Align the named sets; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="prepared sets: train, dev")
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared data")
    parser.add_argument("--by", type=Path, metavar="BUNDLE", help="find what this model hears (default: PocketSphinx)")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    tell = partial(print, flush=True)
    try:
        for name in options.names:
            if options.by:
                model_alignment.align(options.work, name, options.by, options.processes, tell)
            else:
                align(options.work, name, options.processes, tell)
    except (BundleError, CorpusError) as error:
        print(f"align_speech: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
