"""The witnesses who say what was spoken in a piece of a recording: readers, public models, and our own recogniser."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Final, Protocol

from streamer.base.events import Final as FinalEvent
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.accuracy.manifest import normalise
from streamer.engine.acoustics.bundle_files import MODEL_FILE
from streamer.engine.bundle import load_recogniser
from streamer.engine.public.loading import load_public_model
from streamer.engine.reader.reader import Reader, load_reader
from streamer.engine.reader.reading import ReadingOptions, Token
from streamer.engine.reader.reading_words import phrases_of
from streamer.engine.reader.weights import ENCODER_FILE
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.models.library import LibraryError
from streamer.models.model_folder import holds_graphs
from streamer.models.readers import find_reader
from workshop.data.corpus import Samples
from workshop.labelling.agreement import Heard

SHIPPED: Final = "shipped"
_ANY_LANGUAGE: Final = "auto"
_STREAM: Final = 0


class WitnessError(Exception):
    """A witness cannot be used, or has failed. The message says why."""


class Witness(Protocol):
    """Says what was spoken."""

    def hear(self, samples: Samples) -> Heard:
        """Return what was spoken in a piece at 16 kHz."""


def load_witness(name: str, knows: Callable[[str], bool], *, threads: int = 1) -> Witness:
    """Return the witness of this name: `shipped`, a reader, or the folder of a reader or a recogniser.

    `knows`: whether capitals are a word, and are not spelled. WitnessError if there is none, and the errors of the
    loaders.
    """
    folder = asr_repository() / "streaming_asr" / "1" if name == SHIPPED else Path(name)
    if (folder / MODEL_FILE).is_file():
        return RecogniserWitness(load_recogniser(folder, slots=1, idle_limit_s=inf, threads=threads), second_pass=True)
    # A folder with the files of a reader is no model for streams, though both have graphs.
    if (folder / ENCODER_FILE).is_file():
        return ReaderWitness(load_reader(folder, threads=threads), knows)
    if folder.is_dir() and holds_graphs(folder):
        return RecogniserWitness(load_public_model(folder, name=folder.name, slots=1, idle_limit_s=inf))
    try:
        found = find_reader(name)
    except LibraryError as error:
        raise WitnessError(str(error)) from error
    if found is None:
        raise WitnessError(f"the reader {name} is not on this machine: streamer models get {name}")
    return ReaderWitness(load_reader(found, threads=threads), knows)


class ReaderWitness:
    """A reader of whole segments. If it has several languages, it also says which one was spoken."""

    def __init__(self, reader: Reader, knows: Callable[[str], bool]) -> None:
        self._reader, self._knows = reader, knows
        self._options = ReadingOptions(_ANY_LANGUAGE) if len(reader.languages) > 1 else ReadingOptions()

    def hear(self, samples: Samples) -> Heard:
        """Return what was spoken in a piece."""
        began = time.process_time()
        reading = self._reader.read(samples, options=self._options)
        return Heard(
            spoken_words(reading.tokens, self._knows),
            reading.language,
            reading.complete,
            round(reading.log_probability, 4),
            round(time.process_time() - began, 4),
        )


class RecogniserWitness:
    """A recogniser of streams, which hears a piece as a stream of its own."""

    def __init__(self, recogniser: Recogniser, *, second_pass: bool = False) -> None:
        self._recogniser = recogniser
        wanted = {"second_pass": True} if second_pass else {}
        self._options = StreamOptions.from_dict(wanted, recogniser.model.step_ms, list(recogniser.searches))

    def hear(self, samples: Samples) -> Heard:
        """Return what was spoken in a piece. WitnessError if the stream failed."""
        began = time.process_time()
        self._recogniser.open(_STREAM, replace(self._options))
        step = self._options.step_ms * self._recogniser.model.sample_rate // 1000
        words: list[str] = []
        for start in range(0, len(samples), step):
            chunk = Chunk(_STREAM, samples[start : start + step], end=start + step >= len(samples))
            for _, answer in self._recogniser.step([chunk]):
                if isinstance(answer, StreamError):
                    raise WitnessError(f"the recogniser has failed: {answer}") from answer
                words += [word for event in answer if isinstance(event, FinalEvent) for word in normalise(event.text)]
        return Heard(tuple(words), cpu_s=round(time.process_time() - began, 4))


def spoken_words(tokens: Sequence[Token], knows: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the words of a written text as they are spoken, in lower case and without marks."""
    said = [word.text for ways in phrases_of(tokens, knows) for word in ways[0]]
    return tuple(normalise(" ".join(said)))


def fingerprint(name: str) -> str:
    """Return a sign for the content of a witness's files, which differs after any change of them."""
    folder = asr_repository() / "streaming_asr" / "1" if name == SHIPPED else Path(name)
    if not folder.is_dir():
        folder = find_reader(name) or folder
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.glob("*") if path.is_file() and path.suffix != ".py"):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]
