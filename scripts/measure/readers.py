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
import hashlib
import importlib.util
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.audio.recordings import AudioError
from streamer.commands.accuracy.evaluation import Setup, recognise_with_engine
from streamer.commands.accuracy.manifest import ManifestError, Utterance, normalise, read_manifest, select_utterances
from streamer.commands.accuracy.report import rate_text
from streamer.commands.accuracy.results import EvaluationRun, Unavailable
from streamer.commands.accuracy.word_errors import ScoredUtterance, corpus_rates, score_utterance
from streamer.commands.accuracy.word_sections import table
from streamer.engine.reader.pieces import PiecesError
from streamer.engine.reader.reader import load_reader
from streamer.engine.reader.reading import Reading, ReadingOptions, Token
from streamer.engine.reader.reading_words import phrases_of
from streamer.engine.reader.weights import DECODER_FILE, ENCODER_FILE, UnknownReader
from streamer.models.whisper_folder import ENGLISH, MODEL_FILE, UnknownWhisper, holds_whisper
from workshop.comparison.whisper import WhisperError, heard_by_whisper
from workshop.data.corpus import replacing

LIVE, SECOND = "our live pass", "our second pass"
_PASSES: Final[dict[str, Mapping[str, bool]]] = {LIVE: {}, SECOND: {"second_pass": True}}


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


@dataclass(frozen=True)
class ReadUtterance:
    """What a reader read in one recording, and the processor time."""

    reading: Reading
    seconds: float
    cpu_s: float


@dataclass(frozen=True)
class Measured:
    """The results of one recogniser or reader for the same utterances as the others."""

    name: str
    scored: Sequence[ScoredUtterance]
    cpu_a_second: float
    texts: Sequence[str] = ()  # of a reader


def read_all(
    utterances: Sequence[Utterance], folder: Path, cache: Path | None = None, *, whole: bool = False
) -> Iterator[ReadUtterance]:
    """Read all recordings with the reader in this folder, each as one segment of English.

    `whole`: Whisper hears 30 s for each, as it was taught.
    """
    reader = load_reader(folder, whole=whole)
    files = (MODEL_FILE,) if holds_whisper(folder) else (ENCODER_FILE, DECODER_FILE)
    of_reader = hashlib.sha256(b"".join((folder / name).read_bytes() for name in files) + b"whole" * whole)
    for utterance in utterances:
        samples = utterance.samples()
        key = hashlib.sha256(of_reader.digest() + samples.tobytes()).hexdigest()[:32]
        file = cache / f"{key}.json" if cache else None
        if file and file.is_file():
            yield _from_json(file.read_text(encoding="utf-8"))
            continue
        began = time.process_time()
        reading = reader.read(samples, options=ReadingOptions(ENGLISH))
        read = ReadUtterance(reading, len(samples) / SAMPLE_RATE, time.process_time() - began)
        if file:
            with replacing(file, "w") as stream:
                stream.write(_as_json(read))
        yield read


def scored_text(utterance: Utterance, tokens: Sequence[Token]) -> ScoredUtterance:
    """Return the errors of a written text, in which figures and titles count as the words that were spoken."""
    spoken = [word.text for ways in phrases_of(tokens, lambda _: True) for word in ways[0]]
    return score_utterance(utterance, normalise(" ".join(spoken)))


def measure_reader(
    name: str, utterances: Sequence[Utterance], folder: Path, cache: Path | None, *, whole: bool = False
) -> Measured:
    """Measure the reader in this folder."""
    read = list(read_all(utterances, folder, cache, whole=whole))
    scored = [scored_text(utterance, each.reading.tokens) for utterance, each in zip(utterances, read, strict=True)]
    cpu_s = sum(each.cpu_s for each in read) / sum(each.seconds for each in read)
    return Measured(name, scored, cpu_s, [each.reading.text for each in read])


def measure_whisper(
    name: str, utterances: Sequence[Utterance], folder: Path, python: Path, cache: Path | None
) -> Measured:
    """Measure a model of Whisper, with the Python of an environment that has faster-whisper."""
    heard = list(heard_by_whisper(utterances, folder, python, cache))
    scored = [scored_text(one, [Token(each.text, 0.0)]) for one, each in zip(utterances, heard, strict=True)]
    cpu_s = sum(each.cpu_s for each in heard) / sum(each.seconds for each in heard)
    return Measured(name, scored, cpu_s, [each.text for each in heard])


def hear_all(name: str, utterances: Sequence[Utterance]) -> EvaluationRun:
    """Recognise all recordings with one of our passes. Unavailable if the engine is not installed."""
    return recognise_with_engine(utterances, Setup(_PASSES[name], engine=True), lambda _utterance, _seconds: None)


def measure_ours(name: str, utterances: Sequence[Utterance]) -> Measured:
    """Measure one of our passes, LIVE or SECOND."""
    run = hear_all(name, utterances)
    scored = [score_utterance(result.utterance, result.words, result.failure) for result in run.results]
    return Measured(name, scored, sum(run.cpu.values()) / run.seconds)


def comparison(measured: Sequence[Measured]) -> str:
    """Return a table with the word error rates by corpus, and the processor time for a second of audio."""
    rates = [corpus_rates(each.scored) for each in measured]
    header = ["", *(f"{line.name} ({line.errors.words} words) %" for line in rates[0]), "CPU s a second"]
    rows = [
        [each.name, *(rate_text(line.wer) for line in lines), f"{each.cpu_a_second:.3f}"]
        for each, lines in zip(measured, rates, strict=True)
    ]
    return table(header, rows)


def same_texts(measured: Sequence[Measured], other: Measured) -> list[str]:
    """Return a line for each reader: how many of its texts are those of another one, spaces aside."""
    lines = []
    for each in measured:
        same = sum(one.split() == text.split() for one, text in zip(each.texts, other.texts, strict=False))
        if each.texts and each is not other:
            lines.append(f"{each.name} has {same} of {len(other.texts)} texts of {other.name}")
    return lines


def _as_json(read: ReadUtterance) -> str:
    reading = read.reading
    return json.dumps(
        {
            "text": reading.text,
            "tokens": [[token.text, token.log_probability] for token in reading.tokens],
            "log_probability": reading.log_probability,
            "complete": reading.complete,
            "seconds": read.seconds,
            "cpu_s": read.cpu_s,
        }
    )


def _from_json(content: str) -> ReadUtterance:
    kept = json.loads(content)
    tokens = tuple(Token(*token) for token in kept["tokens"])
    reading = Reading(kept["text"], tokens, kept["log_probability"], kept["complete"])
    return ReadUtterance(reading, kept["seconds"], kept["cpu_s"])


if __name__ == "__main__":
    sys.exit(main())
