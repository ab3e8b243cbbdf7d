"""The model `streaming_asr` in a real Triton, through the real link: the promises of docs/reference/triton.md."""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein

from streamer.base.events import Heard
from streamer.base.torch_import import gpu_is_there
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import Link, LinkError
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from streamer.engine.acoustics.bundle_files import read_description
from streamer.testing.exact_service import exact_repository
from tests.asr_repo.model_client import STEP, Events, plain, recognise, said, text
from tests.bridge.service_client import SPOKEN
from tests.project import BUNDLE, DOCS
from tests.samples import FILES, TWO_SEGMENTS_S, pcm, reference
from tests.triton_processes import soon_forgetting, stubs


@pytest.fixture(scope="module")
def two_instances(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """Provide a server with two instances of an exact model, which soon forgets idle sequences."""
    repository = exact_repository(tmp_path_factory.mktemp("repository"))
    soon_forgetting(repository, seconds=4)
    with TritonServer(repository, instances=2, slots=24) as server:
        yield server


@pytest.fixture
async def link(triton: TritonServer) -> AsyncIterator[Link]:
    async with await Link.connect(triton.grpc_address) as link:
        yield link


def metric(server: TritonServer, name: str) -> float:
    """Return the sum of a metric of the model over its instances."""
    with urllib.request.urlopen(f"http://{server.metrics_address}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{"))


async def eventually(server: TritonServer, name: str, value: float, seconds: float = 60.0) -> None:
    for _ in range(int(seconds * 10)):
        if metric(server, name) == value:
            return
        await asyncio.sleep(0.1)
    assert metric(server, name) == value


async def test_speech_is_recognised(link: Link) -> None:
    """Most words of the recordings are recognised, and are shown before they are final."""
    wrong = spoken = 0
    found = await asyncio.gather(*(recognise(link, pcm(name, TWO_SEGMENTS_S)) for name in FILES))
    for name, events in zip(FILES, found, strict=True):
        right = reference(name).partition(" the night")[0].split()  # of the longest one, what is said in this time
        assert any(event["type"] == "partial" for event in events)
        wrong += Levenshtein.distance(right, text(events).split())
        spoken += len(right)
    assert wrong < 0.45 * spoken


async def test_streams_choose_their_search(link: Link) -> None:
    """Streams of both searches share batches; the greedy search gives words that are not in the lexicon."""
    audio = pcm("quilter.ogg")
    searches = ["lexicon", "greedy"] * 2
    found = [text(events) for events in await asyncio.gather(*(recognise(link, audio, search=s) for s in searches))]
    assert len(set(found[::2])) == len(set(found[1::2])) == 1
    assert Levenshtein.distance(reference("quilter.ogg").split(), found[0].split()) < Levenshtein.distance(
        reference("quilter.ogg").split(), found[1].split()
    )
    assert Levenshtein.distance(list(reference("quilter.ogg")), list(found[1])) < len(found[1]) / 2


async def test_any_chunking_gives_the_same_events(link: Link) -> None:
    """Chunks of any size, including empty ones, give the same events as whole steps."""
    audio = pcm("talk.flac", TWO_SEGMENTS_S)
    dice = random.Random(1)
    sizes = iter(lambda: dice.choice([0, 1, 160, 5119, 5120, 30_000]), None)
    in_pieces, whole = await asyncio.gather(recognise(link, audio, sizes), recognise(link, audio))
    assert said(in_pieces) == said(whole)


async def test_32_streams_at_once_are_as_32_alone(link: Link) -> None:
    """Sessions of different ages that share a link and batches get the same results as each alone."""
    clips = [pcm("talk.flac")[offset * 3200 : offset * 3200 + 64_000] for offset in range(8)]
    alone = [said(await recognise(link, clip)) for clip in clips]

    async def one(number: int) -> Events:
        await asyncio.sleep(number * 0.02)
        dice = random.Random(number)
        return await recognise(link, clips[number % 8], iter(lambda: dice.choice([160, 3333, 5120, 12_000]), None))

    together = await asyncio.gather(*(one(number) for number in range(32)))
    for number, events in enumerate(together):
        assert said(events) == alone[number % 8]


async def test_a_sequence_stays_on_its_instance(two_instances: TritonServer) -> None:
    """With two instances, each sequence begins and ends on the same one, and both are used."""
    async with await Link.connect(two_instances.grpc_address) as link:
        audio = SPOKEN[:96_000]
        results = await asyncio.gather(*(recognise(link, audio) for _ in range(16)))
    instances = []
    for events in results:
        marks = [event for event in events if event["type"] in ("opened", "closed")]
        assert [mark["type"] for mark in marks] == ["opened", "closed"]
        # Only the instance that saw START knows the stream: any other would have answered unknown_stream.
        assert marks[0]["instance"] == marks[1]["instance"]
        instances.append(marks[0]["instance"])
    assert len(set(instances)) == 2
    await eventually(two_instances, "streamer_slots_live", 0)


async def test_idle_sequences_expire_on_both_sides(two_instances: TritonServer) -> None:
    """A sequence without requests is dropped by Triton and by the model, which counts it."""
    before = metric(two_instances, "streamer_streams_expired_total")
    async with await Link.connect(two_instances.grpc_address) as link:
        idle, fed = link.sequence(), link.sequence()
        await idle.send(bytes(STEP))
        await fed.send(bytes(STEP))
        await eventually(two_instances, "streamer_slots_live", 2)
        while metric(two_instances, "streamer_streams_expired_total") == before:
            await asyncio.sleep(0.2)
            await fed.send(b"")
        await eventually(two_instances, "streamer_slots_live", 1)
        assert metric(two_instances, "streamer_streams_expired_total") == before + 1
        with pytest.raises(LinkError) as caught:
            await idle.send(bytes(STEP))
        assert caught.value.code == "unknown_stream"
        await fed.send(b"", end=True)
    await eventually(two_instances, "streamer_slots_live", 0)


async def test_slots_are_counted(link: Link, triton: TritonServer) -> None:
    """The model's own metric counts the streams that are open."""
    before = metric(triton, "streamer_slots_live")
    sequence = link.sequence()
    await sequence.send(b"")
    await eventually(triton, "streamer_slots_live", before + 1)
    sequence.discard()
    await eventually(triton, "streamer_slots_live", before)


async def test_flush_is_answered_within_the_request(link: Link) -> None:
    """A flush makes the words so far final at once, and the stream goes on."""
    audio = pcm("talk.flac")
    sequence = link.sequence({"partials": False, "speech": False})
    events = plain(await sequence.send(audio[:64_000], flush=True))
    assert [event["type"] for event in events] == ["opened", "final", "cut", "flushed", "heard"]
    assert events[2]["sample"] == 32_000
    assert (await sequence.send(audio[64_000:128_000], end=True))[-1] == Heard(64_000, 4000)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"colour": "red"}, "unknown option 'colour'"),
        ({"step_ms": 123}, f"step_ms must be one of {', '.join(map(str, read_description(BUNDLE).step_ms))}"),
        ({"flush": "yes"}, "'flush' must be true or false"),
    ],
)
async def test_bad_options_are_refused(link: Link, options: dict[str, Any], complaint: str) -> None:
    """Unknown or invalid options are refused with a sentence, and the link can still be used."""
    sequence = link.sequence(options)
    with pytest.raises(LinkError, match=complaint) as caught:
        await sequence.send(b"")
    assert caught.value.code == "bad_options"
    sequence.discard()
    assert text(await recognise(link, pcm("talk.flac")[:64_000]))


async def test_bad_options_at_the_start_open_nothing(link: Link) -> None:
    """After a refused START, the sequence is unknown."""
    refused = link.sequence({"colour": "red"})
    with pytest.raises(LinkError):
        await refused.send(b"")
    with pytest.raises(LinkError) as caught:
        await refused.send(b"")
    assert caught.value.code == "unknown_stream"
    refused.discard()


async def test_too_much_audio_in_one_request_is_refused(link: Link) -> None:
    """More than half a minute at once is an error; the stream goes on."""
    sequence = link.sequence()
    with pytest.raises(LinkError, match="at most 30 s") as caught:
        await sequence.send(bytes(2 * 16_000 * 31))
    assert caught.value.code == "too_long"
    assert (await sequence.send(b"", end=True))[-1] == Heard(0, 0)


async def test_silence_says_nothing(link: Link) -> None:
    """Exact digital silence and faint noise give no words."""
    assert text(await recognise(link, bytes(2 * 16_000 * 5))) == ""
    noise = np.random.default_rng(3).integers(-3, 4, 16_000 * 5, dtype=np.int16)
    assert text(await recognise(link, noise.tobytes())) == ""


def test_the_example_of_the_contract_runs(triton: TritonServer, talk: str, tmp_path: Path) -> None:
    """The example in docs/reference/triton.md prints what a session prints."""
    document = DOCS / "reference/triton.md"
    [code] = re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(code)
    result = subprocess.run(
        [sys.executable, str(script), talk],
        env={"TRITON": triton.grpc_address, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    expected = asyncio.run(_finals(triton.grpc_address, pcm("talk.flac", TWO_SEGMENTS_S)))
    assert result.stdout.split("\n")[:-1] == expected


async def _finals(address: str, audio: bytes) -> list[str]:
    async with await Link.connect(address) as link:
        return [event["text"] for event in await recognise(link, audio) if event["type"] == "final"]


# What the processes of the model take, and what they share.

MOST_OF_ITS_OWN = 160e6  # bytes; with weights and tables of its own, a process had 235 MB
SHARED = ("encoder", "reading", "marks", "trie", "letters", "words", "language.safetensors", "lexicon.safetensors")


@pytest.mark.skipif(gpu_is_there(), reason="torch computes on a GPU")
async def test_a_further_process_takes_little_memory() -> None:
    """Both processes map the same weights and tables, and what each has for itself after some speech is bounded."""
    with TritonServer(asr_repository(), models=[MODEL], instances=2, private=True) as server:
        async with await Link.connect(server.grpc_address) as link:
            audio = [pcm(name) for name in ("airplane.mp3", "quilter.ogg") * 2]
            heard = await asyncio.gather(*(recognise(link, each, second_pass=True) for each in audio))
        assert all(map(text, heard))
        processes = list(stubs(server.pid))
        maps, status = ([_told(process.pid, name) for process in processes] for name in ("maps", "status"))
    assert len(processes) == 2
    for own in status:
        [size] = re.findall(r"^RssAnon:\s+(\d+) kB$", own, re.MULTILINE)
        assert 1024 * int(size) < MOST_OF_ITS_OWN
    for name in SHARED:
        # The device, the number and the path of each file.
        files = [set(re.findall(rf" (\S+ \d+ +/.*/{name}\S*(?:/.*)?)$", each, re.MULTILINE)) for each in maps]
        assert files[0], name
        assert files[0] == files[1]


def _told(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")
