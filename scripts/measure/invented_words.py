"""Counts the words that are recognised in noise and music, where nobody speaks, by each pass.

    python scripts/measure/invented_words.py FOLDER ... [--reader moonshine-tiny] [--bundle asr_repo/streaming_asr/1]

A folder has recordings in any format that `streamer FILE` reads. The script prints a line for each folder: its minutes,
and the words of the first pass, of the second pass and, with --reader, of this reader of the machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from streamer.commands.accuracy.results import Unavailable
from streamer.models.library import LibraryError
from streamer.models.readers import find_reader
from workshop.comparison.invented_words import comparison, invented, recordings


def main() -> int:
    """Count and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="recordings without speech")
    parser.add_argument("--reader", metavar="NAME", help="a reader of this machine")
    parser.add_argument("--bundle", type=Path, default=Path("asr_repo/streaming_asr/1"), help="folder of the model")
    options = parser.parse_args()
    sounds = [sound for folder in options.folders for sound in recordings(folder)]
    if not sounds:
        parser.error("there are no recordings in these folders")
    try:
        reader = find_reader(options.reader) if options.reader else None
        if options.reader and reader is None:
            parser.error(f"the reader {options.reader} is not on this machine: `streamer models` lists them")
        passes: list[tuple[str, object, Path | None]] = [("first pass", False, None), ("second pass", True, None)]
        passes += [(options.reader, "reader", reader)] if reader else []
        counted = [invented(name, sounds, second, options.bundle, weights) for name, second, weights in passes]
    except (LibraryError, Unavailable) as error:
        print(f"invented_words: {error}", file=sys.stderr)
        return 1
    print(comparison(counted))
    for failure in counted[0].failures:
        print(f"invented_words: {failure}", file=sys.stderr)
    return 1 if counted[0].failures else 0


if __name__ == "__main__":
    sys.exit(main())
