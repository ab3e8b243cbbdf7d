"""Counts the words that are recognised in noise and music, where nobody speaks, by each pass.

    python scripts/measure/invented_words.py FOLDER ... [--reader moonshine-tiny] [--bundle asr_repo/streaming_asr/1]

A folder has recordings in any format that `streamer FILE` reads. The script prints a line for each folder: its minutes,
and the words of the first pass, of the second pass and, with --reader, of this reader of the machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamer.commands.accuracy.engine_runner import EngineRunner
from streamer.commands.accuracy.manifest import AudioLocation, Utterance
from streamer.commands.accuracy.results import Unavailable
from streamer.commands.accuracy.word_sections import table
from streamer.models.library import LibraryError
from streamer.models.readers import find_reader

AT_ONCE = 8


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


@dataclass(frozen=True)
class Invented:
    """The words of one pass in all recordings of each folder."""

    name: str
    words: Mapping[str, int]
    seconds: Mapping[str, float]
    failures: Sequence[str]


def recordings(folder: Path) -> list[Utterance]:
    """Return the recordings of a folder. They belong to a corpus with its name, and nothing is said in them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [Utterance(str(path), folder.name, None, (), AudioLocation(path)) for path in files]


def invented(
    name: str, sounds: Sequence[Utterance], second_pass: object, bundle: Path, reader: Path | None
) -> Invented:
    """Recognise these recordings with a pass, `reader` having the weights of a reader."""
    runner = EngineRunner({"second_pass": second_pass}, at_once=AT_ONCE, bundle=bundle, reader=reader)
    results = runner.run(sounds, lambda _utterance, _seconds: None).results
    words: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for result in results:
        corpus = result.utterance.corpus
        words[corpus] = words.get(corpus, 0) + len(result.words)
        seconds[corpus] = seconds.get(corpus, 0.0) + result.seconds
    return Invented(
        name, words, seconds, [f"{result.utterance.name}: {result.failure}" for result in results if result.failure]
    )


def comparison(counted: Sequence[Invented]) -> str:
    """Return a table of the invented words by folder."""
    rows = [
        [corpus, f"{seconds / 60:.1f}", *(str(each.words[corpus]) for each in counted)]
        for corpus, seconds in counted[0].seconds.items()
    ]
    return table(["invented words", "minutes", *(each.name for each in counted)], rows)


if __name__ == "__main__":
    sys.exit(main())
