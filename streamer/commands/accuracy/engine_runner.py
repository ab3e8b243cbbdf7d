"""Recognises utterances with the engine in this process, without Triton, but in the same batches."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Final

from streamer.audio.audio_file import SAMPLE_RATE, Int16Samples
from streamer.audio.recordings import AudioError
from streamer.base.events import as_json
from streamer.base.text import as_sentence
from streamer.base.torch_import import best_device
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.accuracy.manifest import Utterance
from streamer.commands.accuracy.results import (
    EvaluationRun,
    ProgressCallback,
    TimedEvent,
    Unavailable,
    UtteranceResult,
    utterance_result,
)
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.bundle import load_recogniser
from streamer.engine.public.loading import load_public_model
from streamer.engine.reader.reader import load_reader
from streamer.engine.reader.segment_reader import LocalReader
from streamer.engine.recogniser import Chunk, StreamError
from streamer.engine.search.search import Hotword
from streamer.engine.stream_options import StreamOptions
from streamer.models.model_folder import ModelFolderError, holds_graphs

ENGINE: Final = "engine"
_BUNDLE: Final = "streaming_asr/1"


class EngineRunner:
    """Runs one evaluation with its own recogniser, which is made like that of the model in Triton."""

    def __init__(
        self,
        options: Mapping[str, object],
        *,
        at_once: int,
        bundle: Path | None = None,
        precision: str | None = None,
        reader: Path | None = None,
    ) -> None:
        """Load the recogniser, and a reader from its folder. Unavailable if there is no model in these folders."""
        # No idle limit: here streams wait for each other, however slow the machine is.
        folder = bundle or asr_repository() / _BUNDLE
        try:
            if holds_graphs(folder):
                self._recogniser = load_public_model(folder, name=folder.name, slots=at_once, idle_limit_s=inf)
            else:
                self._recogniser = load_recogniser(
                    folder,
                    slots=at_once,
                    device=best_device(),
                    precision=precision,
                    idle_limit_s=inf,
                    reader=None if reader is None else LocalReader(load_reader(reader)),
                )
        except (BundleError, ModelFolderError, ValueError) as error:
            raise Unavailable(f"{str(error).rstrip('.')}.") from error
        self._options = StreamOptions.from_dict(
            {**options, "partials": options.get("partials") or True},
            self._recogniser.model.step_ms,
            list(self._recogniser.searches),
        )
        self._hotwords: Sequence[Sequence[str]] = ()
        self._at_once = at_once
        self._streams: dict[int, _Stream] = {}
        self._results: dict[int, UtteranceResult] = {}
        self._wall_s = self._cpu_s = 0.0

    def run(
        self, utterances: Sequence[Utterance], progress: ProgressCallback, hotwords: Sequence[Sequence[str]] = ()
    ) -> EvaluationRun:
        """Recognise all utterances, as many at once as there are slots. `hotwords`: those of each, if any.

        Unavailable if the recogniser cannot do what the options want.
        """
        self._hotwords = hotwords
        waiting = iter(enumerate(utterances))
        while True:
            self._open(waiting)
            if not self._streams:
                break
            began, cpu_began = time.monotonic(), time.process_time()
            self._advance()
            self._wall_s += time.monotonic() - began
            self._cpu_s += time.process_time() - cpu_began
            for number in [number for number, stream in self._streams.items() if stream.is_over]:
                stream = self._streams.pop(number)
                self._results[number] = utterance_result(
                    stream.utterance, stream.samples, stream.events, stream.failure
                )
                progress(stream.utterance, len(stream.samples) / SAMPLE_RATE)
        return EvaluationRun(
            [self._results[number] for number in range(len(utterances))], self._wall_s, {ENGINE: self._cpu_s}
        )

    def _open(self, waiting: Iterator[tuple[int, Utterance]]) -> None:
        while len(self._streams) < self._at_once:
            number, utterance = next(waiting, (None, None))
            if number is None or utterance is None:
                return
            try:
                samples = utterance.samples()
            except (AudioError, OSError) as error:
                self._results[number] = UtteranceResult(utterance, 0.0, (), str(error))
                continue
            own = tuple(map(Hotword, self._hotwords[number])) if self._hotwords else self._options.hotwords
            try:
                self._recogniser.open(number, replace(self._options, hotwords=own))
            except StreamError as error:
                raise Unavailable(as_sentence(str(error).removeprefix(f"{error.code}: "))) from error
            self._streams[number] = _Stream(utterance, samples)

    def _advance(self) -> None:
        """Compute one step of audio for every stream."""
        step = self._options.step_ms * SAMPLE_RATE // 1000
        numbers = list(self._streams)
        chunks = [self._streams[number].next_chunk(number, step) for number in numbers]
        for index, answer in self._recogniser.step(chunks):
            stream = self._streams[numbers[index]]
            if isinstance(answer, StreamError):
                stream.failure = str(answer)
                self._recogniser.close(numbers[index])
                continue
            wall_ms = 1000 * (time.monotonic() - stream.began)
            stream.events += [TimedEvent(wall_ms, json.loads(as_json(event))) for event in answer]


@dataclass
class _Stream:
    """An utterance that is being recognised."""

    utterance: Utterance
    samples: Int16Samples
    position: int = 0
    failure: str = ""
    events: list[TimedEvent] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        return bool(self.failure) or self.position == len(self.samples)

    def next_chunk(self, number: int, step: int) -> Chunk:
        samples = self.samples[self.position : self.position + step]
        self.position += len(samples)
        return Chunk(number, samples, end=self.position == len(self.samples))
