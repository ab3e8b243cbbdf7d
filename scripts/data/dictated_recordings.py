"""Prepares recordings in which people spell names and say telephone numbers: to evaluate them, and to train on them.

    git clone https://github.com/Sakshee5/alphanumeric-audio-dataset CLONE
    python scripts/data/dictated_recordings.py CLONE --train MORE
    python -m streamer evaluate CLONE/dictated.tsv --engine

The collection (MIT licence) has recordings by 70 people, most of whom speak another language at home, with their own
telephones and computers. A name was given to them to be spelled letter by letter, and a number to be said digit by
digit. CLONE/dictated.tsv has every second person. With --train, MORE gets the others, as a folder of given speech.
Recordings that are too short or too long for their text are left out: some people said their name as a word. "Double
five" and "oh" are right, too, but count as wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from streamer.base.text import counted
from workshop.data.corpus import CorpusError
from workshop.labelling.dictated_recordings import (
    divided,
    read_dictations,
    without_mistakes,
    write_manifest,
    write_training,
)


def main() -> int:
    """Write the manifest, and the recordings to train on; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a clone of the collection; it gets the manifest")
    parser.add_argument("--train", type=Path, metavar="MORE", help="folder for the recordings to train on")
    options = parser.parse_args()
    try:
        evaluated, trained_on = (
            without_mistakes(options.folder, half) for half in divided(read_dictations(options.folder))
        )
        print(f"{write_manifest(options.folder, evaluated)}: {counted(len(evaluated), 'recording')}")
        if options.train:
            rows = write_training(options.folder, trained_on, options.train)
            hours = sum(row.seconds for row in rows) / 3600
            print(f"{options.train}: {counted(len(rows), 'recording')}, {hours:.2f} h")
    except CorpusError as error:
        print(f"dictated_recordings: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
