"""A recogniser whose networks compute a batch while another one is searched."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.audio.audio_file import read_audio
from streamer.base.events import Heard, as_json
from streamer.base.package import shipped
from streamer.engine.acoustics.streaming_model import Emissions, ModelState
from streamer.engine.adapters.held_requests import Precedence
from streamer.engine.bundle import assemble_recogniser, load_recogniser
from streamer.engine.networks.step_graphs import GraphedNetwork
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.search import Hotword, Hypothesis
from streamer.engine.stream_events import StreamAnswer
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import UNITS, say
from tests.engine.exact_streams import text
from tests.project import BUNDLE

OPTIONS = (
    StreamOptions(),
    StreamOptions(written=True, alternatives=3, words=True, hotwords=(Hotword("aeroplane"), Hotword("zaxby's"))),
    StreamOptions(step_ms=160, second_pass=True),
    StreamOptions(settle_ms=600, stability="high", endpoint=replace(StreamOptions().endpoint, turn=True), turns=True),
    StreamOptions(search="greedy"),
)
LIMIT_S = 60.0
STREAMS = 20
SECONDS = 4
SIZES = (640, 2560, 5120, 12_000)

Samples = NDArray[np.int16]


def sounds() -> list[Samples]:
    """Return a sound for each stream: places of the recordings, and noise that comes and goes."""
    recordings = [
        np.asarray(read_audio(path))
        for path in sorted(shipped("audio_samples").iterdir())
        if path.suffix in (".flac", ".mp3", ".ogg")
    ]
    noise = np.random.default_rng(7).normal(0, 3000, 16_000 * SECONDS) * (np.arange(16_000 * SECONDS) % 24_000 > 9_000)
    made = [noise.astype(np.int16)]
    for place in range(1, STREAMS):
        recording = recordings[place % len(recordings)]
        begin = 16_000 * (place % 7) % max(1, len(recording) - 16_000 * SECONDS)
        made.append(recording[begin : begin + 16_000 * SECONDS])
    return made


@dataclass
class Streams:
    """Streams of a recogniser, each with the audio that it has not got yet, and with its events as JSON."""

    recogniser: Recogniser
    dice: random.Random
    left: dict[int, Samples]
    events: dict[int, list[str]] = field(default_factory=dict)
    computing: set[int] = field(default_factory=set)

    def compute(self, precedence: Precedence) -> None:
        """Compute batches of random streams until all have ended. Several threads may do so."""
        while self.left:
            with precedence.step():
                free = [stream for stream in self.left if stream not in self.computing]
                batch = self.dice.sample(free, self.dice.randint(1, len(free))) if free else []
                self.computing.update(batch)
                self._step(batch)
                self.computing.difference_update(batch)

    def _step(self, batch: Sequence[int]) -> None:
        chunks = []
        for stream in batch:
            if stream not in self.events:
                self.events[stream] = []
                self.recogniser.open(stream, OPTIONS[stream % len(OPTIONS)])
            size = self.dice.choice(SIZES)
            chunks.append(Chunk(stream, self.left[stream][:size], end=size >= len(self.left[stream])))
            self.left[stream] = self.left[stream][size:]
        for index, answer in self.recogniser.step(chunks):
            assert not isinstance(answer, StreamError), answer
            self.events[chunks[index].stream] += [as_json(event) for event in answer if not isinstance(event, Heard)]
        for chunk in chunks:
            if chunk.end:
                del self.left[chunk.stream]


def heard(recogniser: Recogniser, seed: int) -> dict[int, list[str]]:
    """Return the events of all streams. Two threads compute them if the recogniser is pipelined."""
    streams = Streams(recogniser, random.Random(seed), dict(enumerate(sounds())))
    precedence = Precedence()
    if recogniser.pipelined:
        recogniser.meanwhile(precedence.meanwhile)
    number = 2 if recogniser.pipelined else 1
    with ThreadPoolExecutor(number) as pool:
        list(pool.map(streams.compute, [precedence] * number))
    assert recogniser.live == 0
    return streams.events


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_pipeline_changes_no_event(threads: int, wanted: dict[int, list[str]]) -> None:
    """While others are computed, and with any number of threads, each stream has the events that it has otherwise."""
    assert heard(load_recogniser(BUNDLE, slots=STREAMS, threads=threads, pipelined=True), seed=threads) == wanted


@pytest.fixture(scope="module")
def wanted() -> dict[int, list[str]]:
    """The events of the streams, each batch after another one."""
    return heard(load_recogniser(BUNDLE, slots=STREAMS), seed=0)


def test_a_pipeline_of_networks_with_one_place_for_a_batch() -> None:
    """Networks as they are on a GPU, which have the memory of one batch, compute one batch at a time."""
    found = [heard(graphed_recogniser(pipelined=pipelined), seed=3) for pipelined in (False, True)]
    assert found[0] == found[1]


def graphed_recogniser(*, pipelined: bool) -> Recogniser:
    network = GraphedNetwork.load(BUNDLE, "cpu")
    detector = network.detector(STREAMS)
    return assemble_recogniser(
        BUNDLE, network, None, detector, slots=STREAMS, device="cpu", idle_limit_s=60.0, pipelined=pipelined
    )


# What happens at the same time, with an exact model.


class Stage:
    """What computes one batch at a time. It may be told to wait, or to fail."""

    def __init__(self) -> None:
        self.began: SimpleQueue[list[int]] = SimpleQueue()  # the slots of each batch
        self.go_on = threading.Event()
        self.go_on.set()
        self.fails = False
        self._alone = threading.Lock()

    @contextmanager
    def computing(self, slots: Sequence[int]) -> Iterator[None]:
        assert self._alone.acquire(blocking=False), "two batches are in this stage"
        try:
            self.began.put(list(slots))
            assert self.go_on.wait(LIMIT_S)
            if self.fails:
                raise RuntimeError("no memory")
            yield
        finally:
            self._alone.release()


class StagedModel(ExactModel):
    """An exact model whose steps are a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def step(self, state: ModelState, slots: Sequence[int], samples: Samples) -> Emissions:
        with self._stage.computing(slots):
            return super().step(state, slots, samples)


class StagedSearch(GreedySearch):
    """A search whose steps are a stage."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(UNITS, 4)
        self._stage = stage

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        with self._stage.computing(slots):
            return super().advance(slots, emissions)


class Pipeline:
    """A pipelined recogniser with an exact model. Each stream has its slot as its number."""

    def __init__(self) -> None:
        self.networks, self.search = Stage(), Stage()
        self.free: SimpleQueue[None] = SimpleQueue()  # something for each step whose networks have ended
        self.recogniser = Recogniser(
            StagedModel(self.networks), {"lexicon": StagedSearch(self.search)}, slots=4, pipelined=True
        )
        self.precedence = Precedence()
        self.recogniser.meanwhile(self.precedence.meanwhile, lambda: self.free.put(None))
        self._threads = ThreadPoolExecutor(4)

    def say(self, stream: int, words: str) -> Future[StreamAnswer]:
        """Let another thread open a stream that says these words, and return what the stream answers."""

        def answer() -> StreamAnswer:
            with self.precedence.step():
                self.recogniser.open(stream)
                [(_, answer)] = self.recogniser.step([Chunk(stream, say(words), end=True)])
                return answer

        return self._threads.submit(answer)


def test_networks_compute_while_another_batch_is_searched() -> None:
    """While a batch is searched, the networks compute the next one, which is not searched before; the end is right."""
    pipeline = Pipeline()
    pipeline.search.go_on.clear()
    first = pipeline.say(0, "bad cab")
    assert pipeline.search.began.get(timeout=LIMIT_S) == [0]
    second = pipeline.say(1, "fee")
    assert [pipeline.networks.began.get(timeout=LIMIT_S) for _ in range(2)] == [[0], [1]]
    for _ in range(2):
        pipeline.free.get(timeout=LIMIT_S)
    assert pipeline.search.began.empty()
    # Meanwhile others may use the recogniser.
    with pipeline.precedence.step():
        pipeline.recogniser.open(2)
        pipeline.recogniser.close(2)
        assert pipeline.recogniser.live == 2
    pipeline.search.go_on.set()
    assert said(first) == "bad cab"
    assert said(second) == "fee"


def test_networks_have_one_batch_at_a_time() -> None:
    """A batch whose turn comes while the networks are busy waits for them, and nobody waits for the batch."""
    pipeline = Pipeline()
    pipeline.networks.go_on.clear()
    first, second = pipeline.say(0, "bad"), pipeline.say(1, "cab")
    pipeline.networks.began.get(timeout=LIMIT_S)
    with pipeline.precedence.step():
        assert pipeline.networks.began.empty()
    pipeline.networks.go_on.set()
    assert said(first) == "bad"
    assert said(second) == "cab"


@pytest.mark.parametrize("stage", ["networks", "search"])
def test_a_batch_that_fails_takes_no_other_along(stage: str) -> None:
    """If a batch fails in one of its stages, its streams get the error, and those of the next one their words."""
    pipeline = Pipeline()
    failing: Stage = getattr(pipeline, stage)
    failing.fails = True
    error = pipeline.say(0, "bad").result(LIMIT_S)
    assert isinstance(error, StreamError)
    assert str(error) == "failed: the model could not compute this step: no memory"
    failing.fails = False
    assert said(pipeline.say(1, "cab")) == "cab"
    assert pipeline.recogniser.live == 0


def said(answer: Future[StreamAnswer]) -> str:
    return text(answer.result(LIMIT_S))  # type: ignore[arg-type]
