"""The shipped model in a real Triton, with an instance whose networks compute a batch while another one is searched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import Link, LinkError
from streamer.bridge.triton.repository import CONFIG, asr_repository, config_text, model_config, reconfigure
from streamer.bridge.triton.server import TritonServer
from streamer.engine.adapters.held_requests import MOST_REQUESTS
from streamer.engine.adapters.instance import BUNDLE, PIPELINED
from tests.asr_repo.model_client import STEP, plain, recognise, said, sent_at_once, text
from tests.samples import pcm
from tests.triton_processes import no_streams

SLOTS = 12
SHORT_STEP = 16 * 160  # samples
BROKEN = 12_345  # a sample with which the networks cannot compute
SLOW = 12_346  # after a step with this sample, the search goes on when the networks have begun another batch
HELD = 12_347  # a step with this sample is computed when the test lets it go on
ADAPTER = f"""
import importlib.util
import time
from pathlib import Path
from threading import Event

shipped = importlib.util.spec_from_file_location("shipped", "SHIPPED")
module = importlib.util.module_from_spec(shipped)
shipped.loader.exec_module(module)


class TritonPythonModel(module.TritonPythonModel):
    def load(self, instance):
        recogniser = super().load(instance)
        assert recogniser.pipelined
        search = recogniser.searches["lexicon"]
        compute, advance = recogniser.model.step, search.advance
        slow, another, failed = Event(), Event(), Event()
        folder = Path("FOLDER")

        def step(state, slots, samples):
            if slow.is_set():
                another.set()
            if (samples == {SLOW}).any():
                slow.set()
                (folder / "slow").touch()
            if (samples == {HELD}).any():
                (folder / "held").touch()
                while not (folder / "go on").exists():
                    time.sleep(0.01)
            # Then a short step is computed when a second pass has failed.
            if samples.shape[1] == {SHORT_STEP} and len(recogniser._waiting) and (folder / "held").exists():
                failed.wait(20)
            if (samples == {BROKEN}).any():
                raise RuntimeError("no memory")
            return compute(state, slots, samples)

        def read(slots, emissions):
            if slow.is_set() and not another.wait(20):
                raise RuntimeError("no other batch was computed")
            slow.clear()
            return advance(slots, emissions)

        def whole(samples):
            if (folder / "held").exists():
                failed.set()
                raise RuntimeError("no memory")
            return (yield from whole_before(samples))

        whole_before = recogniser.model.whole
        recogniser.model.step, recogniser.model.whole, search.advance = step, whole, read
        return recogniser

    def execute(self, requests):
        super().execute(requests)
        for request in requests:
            (folder := Path("FOLDER") / "given").mkdir(exist_ok=True)
            (folder / str(request.correlation_id())).touch()
"""
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"second_pass": True, "written": True},
    {"step_ms": 160, "hotwords": [{"text": "aeroplane"}]},
    {"search": "greedy"},
    {"speech": True},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the adapter says what it does, and Triton writes its log."""
    return tmp_path_factory.mktemp("told")


@pytest.fixture(scope="module")
def pipelined(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[TritonServer]:
    repository, shipped = tmp_path_factory.mktemp("repository"), asr_repository() / MODEL
    model = repository / MODEL
    (model / "1").mkdir(parents=True)
    config = reconfigure(model_config(shipped), slots=SLOTS)
    config.parameters[PIPELINED].string_value = "true"
    config.parameters[BUNDLE].string_value = str(shipped / "1")
    (model / CONFIG).write_text(config_text(config), encoding="utf-8")
    adapter = ADAPTER.replace("SHIPPED", str(shipped / "1" / "model.py")).replace("FOLDER", str(folder))
    (model / "1" / "model.py").write_text(adapter, encoding="utf-8")
    with TritonServer(repository, log=folder / "log") as server:
        yield server


@pytest.fixture
async def link(pipelined: TritonServer) -> AsyncIterator[Link]:
    async with await Link.connect(pipelined.grpc_address) as link:
        yield link


def audio(stream: int) -> bytes:
    """Return some seconds of a recording, another part for each stream."""
    begin = 16_000 * 2 * stream
    return pcm("talk.flac")[begin : begin + 16_000 * 2 * 5]


async def test_streams_have_the_events_of_the_usual_model(link: Link, shipped_triton: TritonServer) -> None:
    """Streams with any options, of which some are searched while others are computed, get the same results."""
    wishes = [OPTIONS[stream % len(OPTIONS)] for stream in range(SLOTS)]
    async with await Link.connect(shipped_triton.grpc_address) as usual:
        expected = await asyncio.gather(*(recognise(usual, audio(n), **wish) for n, wish in enumerate(wishes)))
    found = await asyncio.gather(*(recognise(link, audio(n), **wish) for n, wish in enumerate(wishes)))
    assert [said(events) for events in found] == [said(events) for events in expected]
    assert all(text(events) for events in found)


async def test_a_batch_is_computed_while_another_one_is_searched(link: Link, folder: Path) -> None:
    """While the step of a stream is searched, the networks compute what comes of another stream, and both answer."""
    slow, other = link.sequence(), link.sequence()
    searched = asyncio.create_task(slow.send(np.full(STEP // 2, SLOW, np.int16).tobytes(), end=True))
    await there(folder / "slow")
    await other.send(audio(0)[:STEP], end=True)
    await searched


async def test_a_recording_may_be_sent_without_waiting_for_answers(link: Link, pipelined: TritonServer) -> None:
    """If far more requests come than are held for a stream, none is refused, and the events are the same."""
    sound = pcm("talk.flac")[: 16_000 * 2 * 20]
    chunks = [sound[start : start + STEP // 8] for start in range(0, len(sound), STEP // 8)]
    assert len(chunks) > 5 * MOST_REQUESTS
    hasty = await asyncio.to_thread(sent_at_once, pipelined.grpc_address, chunks)
    assert said(hasty) == said(await recognise(link, sound))


async def test_a_failure_answers_every_request(link: Link, pipelined: TritonServer) -> None:
    """Streams whose step failed get an error each and are closed; the threads go on, and the slots are free again."""
    expected = said(await recognise(link, audio(1)))
    broken = np.full(STEP // 2, BROKEN, np.int16).tobytes()
    for _ in range(2):
        failures = await asyncio.gather(
            *(link.sequence().send(broken, end=True) for _ in range(SLOTS)), return_exceptions=True
        )
        assert {str(failure) for failure in failures} == {"failed: the model could not compute this step: no memory"}
    assert said(await recognise(link, audio(1))) == expected
    await no_streams(pipelined)


async def test_a_stream_begins_again_behind_its_own_requests(link: Link) -> None:
    """A START under the number of a live stream waits for its requests, and begins one that knows nothing of it."""
    expected = said(await recognise(link, audio(2)))
    sequence = link.sequence()
    await sequence.send(audio(1)[:STEP])
    events = plain(await sequence.begin_anew({}))
    for at in range(0, len(audio(2)), STEP):
        events += plain(await sequence.send(audio(2)[at : at + STEP]))
    assert said(events + plain(await sequence.send(end=True))) == expected


async def test_a_second_pass_that_fails_while_another_step_of_its_batch_is_computed(link: Link, folder: Path) -> None:
    """Its stream ends with an error, and the other stream of the batch goes on; nothing else fails."""
    first = link.sequence()
    held = asyncio.create_task(first.send(np.full(STEP // 2, HELD, np.int16).tobytes(), end=True))
    await there(folder / "held")
    # These two are one batch, and the steps of the first one come first.
    spoken = audio(1) + bytes(2 * 16_000 * 2)
    tasks = []
    for wishes in ({"second_pass": True, "step_ms": 320}, {"step_ms": 160}):
        sequence = link.sequence(wishes)
        tasks.append(asyncio.create_task(sequence.send(spoken, end=True)))
        await there(folder / "given" / str(sequence.id))
    await asyncio.to_thread((folder / "go on").touch)
    failure, events = await asyncio.gather(*tasks, return_exceptions=True)
    await held
    assert isinstance(failure, LinkError)
    assert "the stream was closed while its audio was computed" in str(failure)
    assert not isinstance(events, BaseException)
    assert text(plain(events))
    assert "the work for streams failed" not in await asyncio.to_thread((folder / "log").read_text)
    await asyncio.to_thread((folder / "held").unlink)


async def there(path: Path) -> None:
    """Wait until this file is there."""
    for _ in range(600):
        if await asyncio.to_thread(path.exists):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path.name} has not come")
