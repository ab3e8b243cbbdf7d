"""A public model in a real Triton, with several threads that take turns at the batches of its one instance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import Link, LinkError
from streamer.bridge.triton.repository import CONFIG, VERSION, config_text, link_model, model_config
from streamer.bridge.triton.server import TritonServer
from streamer.engine.adapters.held_requests import MOST_REQUESTS
from streamer.engine.adapters.instance import THREADS
from tests.asr_repo.model_client import STEP, plain, recognise, said, sent_at_once, text
from workshop.graphs.comparison import random_sound
from workshop.graphs.exact_icefall import make_transducer_folder

SLOTS = 12
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


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A server with one instance that computes in three threads."""
    folder = tmp_path_factory.mktemp("public")
    model = folder / "models" / MODEL
    (folder / "graphs").mkdir()
    model.parent.mkdir()
    link_model(make_transducer_folder(folder / "graphs"), model, slots=SLOTS)
    config = model_config(model)
    config.parameters[THREADS].string_value = "3"
    (model / CONFIG).write_text(config_text(config), encoding="utf-8")
    (model / VERSION / "model.py").write_text(ADAPTER, encoding="utf-8")
    with TritonServer(model.parent) as triton:
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
