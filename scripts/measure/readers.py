"""Compares readers with our live pass and our second pass, on the same recordings.

    python scripts/measure/readers.py MANIFEST [--reader NAME=FOLDER ...] [--limit 150] [--cache FOLDER]

A folder has the files of a reader: encoder_model.ort, decoder_model_merged.ort and tokenizer.bin, or a Whisper model in
CTranslate2's format, which reads English; with --whole it hears 30 s for each recording, as it was taught. Without
--reader, the tiny one of the package moonshine-voice is used. The script prints the word error rates by corpus with
their intervals, and the CPU time for a second of audio. All are scored in the same way: without case and marks, and
with figures as words. With --cache, what readers read is kept by the content of the audio.

--whisper adds a line for a model of Whisper, as CTranslate2 has them: in int8, greedy, with one thread. It is computed
by the Python that --whisper-python names, whose environment has the package faster-whisper and need have nothing else.
Below the table is how many texts of each reader are the same as its texts.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from streamer.audio.recordings import AudioError
from streamer.commands.accuracy.manifest import ManifestError, read_manifest, select_utterances
from streamer.commands.accuracy.results import Unavailable
from streamer.engine.reader.pieces import PiecesError
from streamer.engine.reader.weights import UnknownReader
from streamer.models.whisper_folder import UnknownWhisper
from workshop.comparison.readers import (
    LIVE,
    SECOND,
    comparison,
    measure_ours,
    measure_reader,
    measure_whisper,
    same_texts,
)
from workshop.comparison.whisper import WhisperError


def main() -> int:
    """Measure and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", help="table of recordings with their texts")
    parser.add_argument("--reader", action="append", metavar="NAME=FOLDER", help="a reader; may be given several times")
    parser.add_argument("--whisper", metavar="NAME=FOLDER", help="a model of Whisper, for comparison")
    parser.add_argument("--whole", action="store_true", help="let Whisper as a reader hear 30 s for each recording")
    parser.add_argument("--whisper-python", type=Path, metavar="PYTHON", help="a Python that has faster-whisper")
    parser.add_argument("--readers-only", action="store_true", help="leave our own passes out")
    parser.add_argument("--corpus", action="append", default=[], help="only this corpus; may be given several times")
    parser.add_argument("--limit", type=int, help="at most so many recordings, spread evenly over the corpora")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="folder that keeps what readers read")
    options = parser.parse_args()
    readers = [text.partition("=") for text in options.reader or _installed()]
    if not all(name and folder for name, _, folder in readers):
        parser.error("give readers as NAME=FOLDER")
    whisper, _, whisper_folder = (options.whisper or "").partition("=")
    if bool(options.whisper) != bool(options.whisper_python) or bool(whisper) != bool(whisper_folder):
        parser.error("give --whisper NAME=FOLDER and --whisper-python together")
    try:
        utterances = select_utterances(read_manifest(Path(options.manifest)), options.corpus, options.limit)
        measured = [] if options.readers_only else [measure_ours(name, utterances) for name in (LIVE, SECOND)]
        for name, _, folder in readers:
            measured.append(measure_reader(name, utterances, Path(folder), options.cache, whole=options.whole))
        if whisper:
            program = (
                options.whisper_python.absolute()
            )  # not resolved: that would be the Python outside its environment
            measured.append(measure_whisper(whisper, utterances, Path(whisper_folder), program, options.cache))
    except (
        ManifestError,
        AudioError,
        Unavailable,
        UnknownReader,
        UnknownWhisper,
        PiecesError,
        WhisperError,
        OSError,
    ) as error:
        print(f"readers: {error}", file=sys.stderr)
        return 1
    if not measured:
        parser.error("there is no reader: give one, or install the package moonshine-voice")
    print(comparison(measured))
    if whisper:
        print(*same_texts(measured, measured[-1]), sep="\n")
    return 0


def _installed() -> list[str]:
    """Return the reader of the package that is installed, if it is."""
    found = importlib.util.find_spec("moonshine_voice")
    return [] if found is None or not found.origin else [f"tiny={Path(found.origin).parent / 'assets' / 'tiny-en'}"]


if __name__ == "__main__":
    sys.exit(main())
