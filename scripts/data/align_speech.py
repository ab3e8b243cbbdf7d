"""Find where every word and phone of the prepared speech lies, by PocketSphinx's forced alignment.

    python scripts/data/align_speech.py --work PREPARED train dev

writes PREPARED/NAME.phones.jsonl, one utterance a line: words as [word, start ms, length ms] and phones as
[phone, start ms, length ms, number of its word]. Where no alignment is found `aligned` is false and the phones
are the dictionary's, without times. Stopped at any moment, it goes on from there the next time.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from streamer.training.data.corpus import CorpusError
from streamer.training.data.forced_alignment import align


def main() -> int:
    """Align the named sets; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="prepared sets: train, dev")
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared data")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    try:
        for name in options.names:
            align(options.work, name, options.processes, partial(print, flush=True))
    except CorpusError as error:
        print(f"align_speech: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
