"""Finds the times of every word and phone of the prepared speech, with PocketSphinx or our own model.

    python scripts/data/align_speech.py --work PREPARED train dev
    python scripts/data/align_speech.py --work PREPARED --hours 2 train
    python scripts/data/align_speech.py --work PREPARED --by BUNDLE train

Without --by, it writes PREPARED/NAME.phones.jsonl with PocketSphinx. Each line is an utterance: words as
[word, start ms, length ms], and phones as [phone, start ms, length ms, number of its word]. If no alignment is found,
`aligned` is false, and the phones are those of the dictionary, without times. 20 hours of speech take 40 minutes on two
cores. --hours takes only a share, which is enough for scripts/train/train_activity.py.

With --by, it writes PREPARED/NAME.heard.jsonl: the pronunciations that the model of this bundle hears, with rough
times. This takes only minutes, and training prefers these files. Times are never evaluated with them.

Both can be stopped at any moment. The same command continues them, and aligns what was added to the speech since.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from streamer.engine.acoustics.bundle_files import BundleError
from workshop.data.alignment import align
from workshop.data.corpus import CorpusError
from workshop.phones import alignment


def main() -> int:
    """Align the named sets; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="prepared sets: train, dev")
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared data")
    parser.add_argument("--by", type=Path, metavar="BUNDLE", help="find what this model hears (default: PocketSphinx)")
    parser.add_argument("--hours", type=float, help="only so much of each set, by PocketSphinx (default: all)")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.by and options.hours is not None:
        parser.error("--hours is for PocketSphinx: training needs all that a model hears")
    tell = partial(print, flush=True)
    try:
        for name in options.names:
            if options.by:
                alignment.align(options.work, name, options.by, options.processes, tell)
            else:
                align(options.work, name, options.processes, tell, options.hours)
    except (BundleError, CorpusError) as error:
        print(f"align_speech: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
