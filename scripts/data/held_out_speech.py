"""Makes the held-out set: short recordings from public repositories that are in no training data of ours.

    python scripts/data/held_out_speech.py --to HELDOUT [--clones CLONES] [--leaks GIVEN/train.tsv TEXT.tar]
    python -m streamer evaluate HELDOUT/heldout.tsv --engine

HELDOUT gets heldout.tsv, a manifest like dev.tsv, and a tar shard with the recordings, cut and at 16 kHz. They come
from the commits that workshop/data/held_out_files.tsv names, and each file is checked by its hash. Only these files are
fetched, with git; CLONES keeps them (default: HELDOUT/clones). A clone that is there already, in CLONES/OWNER+NAME, is
read as it is. The licences of the recordings are those of their makers: use them to evaluate, and do not train on them.

With --leaks, it also reports the sentences of manifests and of archives of text that are in the set, or share eight
words in a row with one of it. The status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from workshop.data.corpus import CorpusError
from workshop.data.held_out import GITHUB, MANIFEST, TABLES, Tables, leaks, make


def main() -> int:
    """Make the set and describe it; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, metavar="HELDOUT", help="folder for the set")
    parser.add_argument("--clones", type=Path, help="folder of clones (default: HELDOUT/clones)")
    parser.add_argument("--tables", type=Path, default=TABLES, help="folder of both tables (default: those of ours)")
    parser.add_argument("--origin", default=GITHUB, help="where repositories are fetched from (default: %(default)s)")
    parser.add_argument(
        "--leaks", type=Path, nargs="+", default=[], metavar="MANIFEST", help="manifests to compare with"
    )
    options = parser.parse_args()
    try:
        tables = Tables.read(options.tables)
        make(tables, options.clones or options.to / "clones", options.to, options.origin)
        print(options.to / MANIFEST, *tables.summary(), sep="\n")
        found = leaks(tables.cuts, options.leaks, print)
    except CorpusError as error:
        print(f"held_out_speech: {error}", file=sys.stderr)
        return 1
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
