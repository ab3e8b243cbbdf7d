"""A public model in a real Triton, with several threads that take turns at the batches of its one instance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.grpc import InferenceServerClient, InferInput

from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import Link, LinkError, Sequence
from streamer.bridge.triton.repository import CONFIG, VERSION, config_text, link_model, model_config
from streamer.bridge.triton.server import TritonServer
from streamer.engine.adapters.held_requests import MOST_REQUESTS
from streamer.engine.adapters.instance import THREADS
from tests.asr_repo.model_client import STEP, plain, recognise, said, sent_at_once, text
from workshop.graphs.comparison import random_sound
from workshop.graphs.exact_icefall import make_transducer_folder

SLOTS = 12
FEWEST_OTHERS, ENOUGH_TOGETHER = 4, 8  # in streamer/engine/adapters/event_model.py
BROKEN = 12_345  # a sample with which the model cannot compute
# A model that fails while it computes some samples, and an adapter that fails before it computes some callers.
ADAPTER = f"""
from streamer.engine.adapters.event_model import TritonPythonModel as PublicModel


class TritonPythonModel(PublicModel):
    def load(self, instance):
        recogniser = super().load(instance)
        compute, compare = recogniser.model.step, recogniser.shares.compare

        def step(state, slots, samples):
            if (samples == {BROKEN}).any():
                raise RuntimeError("no memory")
            return compute(state, slots, samples)

        def checked(callers):
            if "broken" in callers:
                raise RuntimeError("no callers")
            compare(callers)

        recogniser.model.step, recogniser.shares.compare = step, checked
        return recogniser
"""


# The same with so much time to gather streams that a test fails if they are waited for that long. It writes the number
# of streams of each batch into a file.
PATIENT = """
from streamer.engine.adapters import event_model


class TritonPythonModel(event_model.TritonPythonModel):
    def load(self, instance):
        recogniser = super().load(instance)
        compute = recogniser.model.step

        def step(state, slots, samples):
            with open("SIZES", "a") as sizes:
                print(len(slots), file=sizes)
            return compute(state, slots, samples)

        recogniser.model.step = step
        return recogniser


event_model.GATHERING_S = 600
"""


def serve(folder: Path, adapter: str, threads: int) -> TritonServer:
    """Return a server with one instance that computes in so many threads."""
    model = folder / "models" / MODEL
    (folder / "graphs").mkdir()
    model.parent.mkdir()
    link_model(make_transducer_folder(folder / "graphs"), model, slots=SLOTS)
    config = model_config(model)
    config.parameters[THREADS].string_value = str(threads)
    (model / CONFIG).write_text(config_text(config), encoding="utf-8")
    (model / VERSION / "model.py").write_text(adapter, encoding="utf-8")
    return TritonServer(model.parent)


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    with serve(tmp_path_factory.mktemp("public"), ADAPTER, threads=3) as triton:
        yield triton


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the sizes of the batches of `patient`."""
    return tmp_path_factory.mktemp("sizes") / "sizes"


@pytest.fixture(scope="module", params=[1, 3], ids=["one thread", "three threads"])
def patient(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sizes: Path
) -> Iterator[TritonServer]:
    adapter = PATIENT.replace("SIZES", str(sizes))
    with serve(tmp_path_factory.mktemp("patient"), adapter, threads=request.param) as triton:
        yield triton


@pytest.fixture
async def link(triton: TritonServer) -> AsyncIterator[Link]:
    async with await Link.connect(triton.grpc_address) as link:
        yield link


def sounds(number: int, seconds: float) -> list[bytes]:
    """Return sounds in which the model finds words."""
    random = np.random.default_rng(number)
    return [random_sound(random, seconds).tobytes() for _ in range(number)]


async def test_streams_at_once_are_as_alone(link: Link) -> None:
    """Streams of different ages, of which any are computed at the same time, get the results of each alone."""
    audio = sounds(SLOTS, 6.0)
    alone = [said(await recognise(link, each)) for each in audio]
    together = await asyncio.gather(*(recognise(link, each) for each in audio))
    assert [said(events) for events in together] == alone
    assert all(text(events) for events in together)


async def test_a_recording_may_be_sent_without_waiting_for_answers(link: Link, triton: TritonServer) -> None:
    """If far more requests come than are held for a stream, none is refused, and the events are the same."""
    [audio] = sounds(1, 20.0)
    chunks = [audio[start : start + STEP // 8] for start in range(0, len(audio), STEP // 8)]
    assert len(chunks) > 5 * MOST_REQUESTS
    hasty = await asyncio.to_thread(sent_at_once, triton.grpc_address, chunks)
    assert said(hasty) == said(await recognise(link, audio))


async def test_a_failure_answers_every_request(link: Link) -> None:
    """Streams whose step failed get an error each and are closed; the threads go on, and the slots are free again."""
    [audio] = sounds(1, 5.0)
    expected = said(await recognise(link, audio))
    broken: NDArray[np.int16] = np.full(STEP, BROKEN, np.int16)
    for _ in range(2):
        failures = await asyncio.gather(
            *(link.sequence().send(broken.tobytes(), end=True) for _ in range(SLOTS)), return_exceptions=True
        )
        assert {str(failure) for failure in failures} == {"failed: the model could not compute this step: no memory"}
    assert said(await recognise(link, audio)) == expected


async def test_a_failure_before_a_batch_answers_every_request(link: Link) -> None:
    """If our own code fails in a thread, each request that it has taken is answered, and the thread goes on."""
    [audio] = sounds(1, 5.0)
    failures = await asyncio.gather(
        *(link.sequence({"caller": "broken"}).send(audio[:STEP], end=True) for _ in range(6)), return_exceptions=True
    )
    assert {str(failure) for failure in failures} == {"failed: no callers"}
    assert all(isinstance(failure, LinkError) for failure in failures)
    assert text(await recognise(link, audio))


async def test_a_stream_begins_again_behind_its_own_requests(link: Link) -> None:
    """A START under the number of a live stream waits for its requests, and begins one that knows nothing of it."""
    first, second = sounds(2, 4.0)
    expected = said(await recognise(link, second))
    sequence = link.sequence()
    await sequence.send(first[:STEP])
    events = plain(await sequence.begin_anew({}))
    for at in range(0, len(second), STEP):
        events += plain(await sequence.send(second[at : at + STEP]))
    assert said(events + plain(await sequence.send(end=True))) == expected


async def test_steps_wait_for_those_of_other_streams(patient: TritonServer, sizes: Path) -> None:
    """The step of a stream waits for those of others until there are enough of them for one batch."""
    async with await Link.connect(patient.grpc_address) as link, streams(link, SLOTS) as open_streams:
        await asyncio.gather(*(stream.send(bytes(STEP)) for stream in open_streams[:ENOUGH_TOGETHER]))
        assert last(sizes) == ENOUGH_TOGETHER


@pytest.mark.parametrize(
    ("pcm", "wish"),
    [
        (b"", {"end": True}),
        (b"", {"flush": True}),
        (bytes(STEP), {"flush": True}),
        (bytes(2 * STEP), {}),
        (bytes(STEP // 8), {}),
    ],
    ids=["an end", "a flush", "a step with a flush", "two steps", "a piece of a step"],
)
async def test_what_cannot_wait_is_computed_with_all_that_waits(
    patient: TritonServer, pcm: bytes, wish: dict[str, bool]
) -> None:
    """A stream that ends, flushes, catches up or sends little at a time does not wait, and nor do the others then."""
    async with await Link.connect(patient.grpc_address) as link, streams(link, SLOTS) as (first, second, *_):
        await asyncio.gather(first.send(bytes(STEP)), second.send(pcm, **wish))


async def test_options_that_are_no_text_are_refused(patient: TritonServer) -> None:
    """A request that cannot be read waits for nobody, and gets an error of its own."""
    async with await Link.connect(patient.grpc_address) as link, streams(link, SLOTS - 1):
        opened, refused = await asyncio.to_thread(with_options, patient.grpc_address, b"{}", b"\xff")
    assert not isinstance(opened, Exception)
    assert str(refused).startswith("failed: 'utf-8' codec can't decode")


def with_options(address: str, *texts: bytes) -> list[Any]:
    """Return the answers to requests of one stream, each with a step of audio and these options."""
    answers: list[Any] = []
    with InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: answers.append(error or result))
        for number, text in enumerate(texts):
            audio, options = InferInput("AUDIO", [1, STEP // 2], "INT16"), InferInput("OPTIONS", [1, 1], "BYTES")
            audio.set_data_from_numpy(np.zeros((1, STEP // 2), np.int16))
            options.set_data_from_numpy(np.array([[text]], dtype=np.object_))
            place = {"sequence_start": not number, "sequence_end": number == len(texts) - 1}
            client.async_stream_infer(MODEL, [audio, options], sequence_id=7, **place)
        client.stop_stream()
    return answers


async def test_few_streams_wait_for_nobody(patient: TritonServer) -> None:
    """If hardly any other stream can come in time, a step is computed at once."""
    async with await Link.connect(patient.grpc_address) as link, streams(link, FEWEST_OTHERS) as [stream, *_]:
        await stream.send(bytes(STEP))


@asynccontextmanager
async def streams(link: Link, number: int) -> AsyncIterator[list[Sequence]]:
    """So many streams that have begun, so that each further step of audio completes one. They end afterwards."""
    sequences = [link.sequence() for _ in range(number)]
    try:
        await asyncio.gather(*(sequence.send(bytes(STEP)) for sequence in sequences))
        yield sequences
    finally:
        for sequence in sequences:
            sequence.discard()


def last(sizes: Path) -> int:
    """Return the number of streams of the last batch."""
    return int(sizes.read_text().split()[-1])
