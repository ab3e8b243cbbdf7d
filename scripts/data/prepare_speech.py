"""Decodes the given speech, noise and rooms to memory-mapped int16 audio, and checks the manifests.

    python scripts/data/prepare_speech.py --speech GIVEN --work PREPARED
    python scripts/data/prepare_speech.py --work PREPARED --synthetic-hours 5

GIVEN has `train.tsv`, `dev.tsv`, the tar files (shards) that they name, `noise.tar` and `rooms.tar`. PREPARED gets
`train`, `dev`, `noise` and `rooms` as NAME.samples and NAME.tsv. Utterances of train that are also in dev are left out.

With --synthetic-hours, PREPARED also gets `synthetic`: words that train lacks, numbers, spelled letters and commands.
They are said by the voices of Debian's packages espeak-ng, flite and, with --engines, rhvoice. The same seed gives the
same speech.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from workshop.data.corpus import CorpusError, amount, prepare
from workshop.data.synthetic_speech import check_installed, synthesise


def main() -> int:
    """Prepare everything; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--speech", type=Path, help="folder with manifests and shards (default: keep what was prepared)"
    )
    parser.add_argument("--work", type=Path, required=True, help="folder for the prepared data")
    parser.add_argument("--synthetic-hours", type=float, default=0.0, help="hours of synthetic speech (default: none)")
    parser.add_argument("--engines", nargs="+", default=["espeak-ng", "flite"], help="synthetic voices")
    parser.add_argument("--seed", type=int, default=1, help="seed of synthetic speech")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    try:
        if not options.speech and not options.synthetic_hours > 0:
            raise CorpusError("there is nothing to do: give --speech, --synthetic-hours or both")
        if options.synthetic_hours > 0:
            check_installed(options.engines)
        if options.speech:
            prepare(options.speech, options.work, options.processes, partial(print, flush=True))
        if options.synthetic_hours > 0:
            hours, engines = options.synthetic_hours, options.engines
            print(amount("synthetic", synthesise(options.work, hours, engines, options.seed, options.processes)))
    except CorpusError as error:
        print(f"prepare_speech: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
