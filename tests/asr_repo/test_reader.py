"""The recogniser and a reader with real weights in a real Triton: ended segments are read by the other model."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_client
from tritonclient.utils import InferenceServerException

from streamer.base.events import ReadBy
from streamer.base.limits import READER
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import Link
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from streamer.models.readers import find_reader
from tests.asr_repo.model_client import Events, recognise, said
from tests.samples import pcm
from tests.triton_processes import asleep, stubs

SPEECH = pcm("quilter.ogg")
OPTIONS: dict[str, Any] = {"second_pass": True, "reader": True, "written": True}


@pytest.fixture(scope="module")
def weights() -> Path:
    folder = find_reader("moonshine-tiny")
    assert folder is not None, "the package moonshine-voice of the tests is not installed"
    return folder


@pytest.fixture(scope="module")
def server(weights: Path) -> Iterator[TritonServer]:
    with TritonServer(asr_repository(), models=[MODEL], slots=16, reader=weights) as server:
        yield server


@pytest.fixture
async def link(server: TritonServer) -> AsyncIterator[Link]:
    async with await Link.connect(server.grpc_address) as link:
        yield link


def finals(events: Events) -> Events:
    return [event for event in events if event["type"] == "final"]


def read_by(events: Events) -> set[str]:
    return {final["read_by"] for final in finals(events)}


async def test_a_reader_reads_the_segments(link: Link) -> None:
    """Finals say so. Their words have times in order within the sound, and confidences; they are written and spoken."""
    events = await recognise(link, SPEECH, **OPTIONS)
    assert read_by(events) == {ReadBy.READER}
    words = [word for final in finals(events) for word in final["words"]]
    times = [time for word in words for time in (word["start_ms"], word["end_ms"])]
    assert times == sorted(times)
    assert times[-1] <= len(SPEECH) // 32
    assert all(0 < word["confidence"] <= 1 for word in words)
    assert "Mr. Quilter" in " ".join(final["text"] for final in finals(events))
    assert "mister quilter" in " ".join(final["spoken"] for final in finals(events)).replace("mr ", "mister ")


async def test_only_streams_that_ask_for_it(link: Link) -> None:
    """Without the option, the recogniser does the second pass."""
    events = await recognise(link, SPEECH, second_pass=True)
    assert read_by(events) == {ReadBy.SECOND_PASS}


async def test_company_and_chunks_change_nothing(link: Link) -> None:
    """Four streams at a time, in chunks of any length, have the finals of one alone.

    A machine that is too busy may leave a segment to another pass, and says so.
    """
    alone = finals(said(await recognise(link, SPEECH, **OPTIONS)))

    async def in_chunks(seed: int) -> Events:
        lengths = random.Random(seed)
        sizes = (lengths.randint(1, 9000) for _ in itertools.count())
        return finals(said(await recognise(link, SPEECH, sizes, **OPTIONS)))

    together = list(itertools.chain(*await asyncio.gather(*map(in_chunks, range(4)))))
    by_reader = [final for final in together if final["read_by"] == ReadBy.READER]
    assert by_reader
    assert all(final in alone for final in by_reader)


async def test_a_reader_that_dies(weights: Path) -> None:
    """The recogniser reads the segments itself, and every word still gets a final."""
    with TritonServer(asr_repository(), models=[MODEL], reader=weights) as server:
        async with await Link.connect(server.grpc_address) as link:
            before = await recognise(link, SPEECH, **OPTIONS)
            [process] = [each for each in stubs(server.pid) if f"/{READER}/" in " ".join(each.cmdline())]
            while not asleep(process):
                pass
            process.kill()
            events = await recognise(link, SPEECH, **OPTIONS)
            assert READER not in read_by(events)
            assert len(finals(events)) == len(finals(before))


async def test_a_reader_without_weights(tmp_path: Path) -> None:
    """It stops neither Triton nor sessions, and the log says so once, however often it is asked."""
    log = tmp_path / "log"
    with TritonServer(asr_repository(), models=[MODEL], reader=tmp_path, log=log) as server:
        async with await Link.connect(server.grpc_address) as link:
            for _ in range(3):
                assert read_by(await recognise(link, SPEECH, **OPTIONS)) == {ReadBy.SECOND_PASS}
                await asyncio.sleep(2.5)  # until it is asked again, the first time
    assert log.read_text(errors="replace").count("there is no reader now") == 1


def test_a_program_may_ask_it_directly(server: TritonServer) -> None:
    """The reading has a text, and its tokens with their log-probabilities."""
    samples = np.frombuffer(SPEECH, np.int16).reshape(1, -1)
    audio = triton_client.InferInput("AUDIO", samples.shape, "INT16")
    audio.set_data_from_numpy(samples)
    answer = triton_client.InferenceServerClient(server.grpc_address).infer(READER, [audio])
    reading = json.loads(answer.as_numpy("READING").item())
    assert "Quilter" in reading["text"]
    assert reading["complete"] is True
    assert "".join(token["text"] for token in reading["tokens"]).strip() == reading["text"]
    assert all(token["log_probability"] <= 0 for token in reading["tokens"])


def test_several_segments_at_once(server: TritonServer) -> None:
    """Threads of one process read them. Each has the reading that it has alone, to the last digit."""
    client = triton_client.InferenceServerClient(server.grpc_address)
    inputs = []
    for number in range(6):
        samples = np.frombuffer(SPEECH, np.int16)[8000 * number :][: 16_000 * (6 - number)].reshape(1, -1)
        inputs.append(triton_client.InferInput("AUDIO", samples.shape, "INT16"))
        inputs[-1].set_data_from_numpy(samples)

    def reading(audio: triton_client.InferInput) -> bytes:
        answer: bytes = client.infer(READER, [audio]).as_numpy("READING").item()
        return answer

    alone = [reading(audio) for audio in inputs]
    with ThreadPoolExecutor(len(inputs)) as threads:
        together = list(threads.map(reading, inputs * 2))
    assert together == alone * 2
    assert len({json.loads(each)["text"] for each in alone}) > 1


def test_a_reading_is_compared_with_other_words(server: TritonServer) -> None:
    """A program that sends words gets the differences, and how likely the reader finds these words there."""
    samples = np.frombuffer(SPEECH, np.int16).reshape(1, -1)
    audio = triton_client.InferInput("AUDIO", samples.shape, "INT16")
    audio.set_data_from_numpy(samples)
    words = triton_client.InferInput("WORDS", (1, 1), "BYTES")
    client = triton_client.InferenceServerClient(server.grpc_address)

    def compared(others: bytes) -> list[dict[str, Any]]:
        words.set_data_from_numpy(np.array([[others]], np.object_))
        reading = json.loads(client.infer(READER, [audio, words]).as_numpy("READING").item())
        differences: list[dict[str, Any]] = reading["differences"]
        return differences

    found = compared(b"mister quilter is the epistle of the middle classes")
    assert ["epistle"] in [one["words"] for one in found]
    assert all(one["own"] <= 0 for one in found)
    assert compared(b"zebra")[0]["gain"] < -10
    assert compared(b"") == []
    with pytest.raises(InferenceServerException, match="could not be read"):
        compared(b"\xff")
