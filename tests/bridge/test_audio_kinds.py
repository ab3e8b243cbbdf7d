"""Audio of every kind through the real service gives the same words, at any rate and in any encoding."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.client import SessionError, connect, transcribe
from tests.bridge.service_client import Event, receive, recognise, rest, said, serving, session, text
from tests.samples import pcm
from tests.triton_processes import no_streams

SECONDS = 8


@pytest.fixture(scope="module")
def triton(shipped_triton: TritonServer) -> TritonServer:
    """Provide the shipped model: these tests compare the words of converted speech."""
    return shipped_triton


@pytest.fixture
async def service(triton: TritonServer) -> AsyncIterator[Service]:
    async with serving(triton) as service:
        yield service
    await no_streams(triton)


def speech(name: str, start_s: float = 0, seconds: float = SECONDS) -> NDArray[Any]:
    """Return a part of a recording, with full scale 1."""
    samples = np.frombuffer(pcm(name), np.int16)[round(start_s * 16_000) :][: round(seconds * 16_000)]
    return (samples / 32768).astype(np.float32)


def sent(samples: NDArray[Any], rate: int, encoding: str) -> bytes:
    """Return the same audio as a client has it."""
    samples = soxr.resample(samples, 16_000, rate)
    if encoding == "pcm_f32le":
        return samples.astype("<f4").tobytes()
    if encoding == "pcm_s16le":
        return np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2").tobytes()
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="RAW", subtype={"mulaw": "ULAW", "alaw": "ALAW"}[encoding])
    return file.getvalue()


# The kinds of audio, and how many of the words may differ.
KINDS = {
    # A telephone removes everything above 4 kHz, and with it some of the words.
    ("mulaw", 8_000): 0.6,
    ("alaw", 8_000): 0.6,
    ("pcm_s16le", 44_100): 0.1,
    ("pcm_f32le", 48_000): 0.1,
    ("pcm_s16le", 22_050): 0.1,
}
PLAIN = ("pcm_s16le", 16_000)
Kinds = dict[tuple[str, int], list[Event]]


@pytest.fixture(scope="module")
def heard_before() -> Kinds:
    """Provide a memory of the results for each kind of audio."""
    return {}


@pytest.fixture
async def heard(service: Service, heard_before: Kinds) -> Kinds:
    """Return the results for each kind of audio. All are computed at once, as one batch."""

    async def of(encoding: str, rate: int) -> list[Event]:
        audio = sent(speech("talk.flac"), rate, encoding)
        return await recognise(service.url, audio, [39_997] * 40, encoding=encoding, sample_rate=rate)

    if not heard_before:
        kinds = [PLAIN, *KINDS]
        heard_before.update(zip(kinds, await asyncio.gather(*(of(*kind) for kind in kinds)), strict=True))
    return heard_before


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
async def test_another_rate_gives_the_words(heard: Kinds, kind: tuple[str, int]) -> None:
    """At another rate a few words may differ from those at 16 kHz; the times are the same, and no sample is missing."""
    expected, events = text(heard[PLAIN]).split(), heard[kind]
    assert expected
    assert Levenshtein.distance(expected, text(events).split()) <= KINDS[kind] * len(expected)
    assert events[-1]["audio_ms"] == pytest.approx(1000 * SECONDS, abs=1)
    ends = [event["end_ms"] for event in events if event["type"] == "final"]
    assert ends == sorted(ends)
    assert ends[-1] <= 1000 * SECONDS


async def test_any_pieces(service: Service) -> None:
    """Pieces of any size give the same as the whole, also at another rate."""
    audio = sent(speech("talk.flac", seconds=4), 44_100, "pcm_s16le")
    options: dict[str, Any] = {"sample_rate": 44_100}
    sizes: list[list[int]] = [[], [1, 2, 333, 8821, 40_001]]
    whole, pieces = await asyncio.gather(*(recognise(service.url, audio, each, **options) for each in sizes))
    assert said(pieces) == said(whole)


def call() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a call with one speaker on each side, who take turns."""
    left, right = speech("quilter.ogg", seconds=4), speech("talk.flac", seconds=4)
    silence = np.zeros(len(left) + 16_000, np.float32)
    length = len(silence) + len(right)
    return np.resize(np.concatenate([left, np.zeros(length, np.float32)]), length), np.concatenate([silence, right])


async def test_a_speaker_a_side(service: Service) -> None:
    """Each channel gets the words that it gets alone; each event names its channel; segments count from 0 in each."""
    left, right = call()
    both = sent(np.stack([left, right], axis=1), 16_000, "pcm_s16le")
    *sides, events = await asyncio.gather(
        *(recognise(service.url, sent(side, 16_000, "pcm_s16le")) for side in (left, right)),
        recognise(service.url, both, [10_001] * 20, channels=2, multichannel=True),
    )
    alone = [said(side) for side in sides]
    assert [event["n"] for event in events] == list(range(2, len(events) + 2))
    for channel in (0, 1):
        own = said([event for event in events if event.get("channel") == channel])
        assert [{**event, "channel": channel} for event in alone[channel] if event["type"] != "done"] == own
        segments = [event["segment"] for event in own if event["type"] == "final"]
        assert segments == list(range(len(segments)))
        assert segments
    assert {event["type"] for event in events if "channel" not in event} <= {"heard", "done"}
    assert events[-1] == {"type": "done", "n": len(events) + 1, "audio_ms": len(left) // 16}


async def test_mixed(service: Service) -> None:
    """Without `multichannel` there is one transcript, with the words of both sides."""
    left, right = call()
    both = np.stack([left, right], axis=1)
    mixed, events = await asyncio.gather(
        recognise(service.url, sent(both.mean(axis=1), 16_000, "pcm_s16le")),
        recognise(service.url, sent(both, 16_000, "pcm_s16le"), channels=2),
    )
    assert not any("channel" in event for event in events)
    # Both round the mean, but differently.
    assert Levenshtein.distance(text(events).split(), text(mixed).split()) <= 2
    assert len(text(events).split()) > 10


async def test_a_flush_of_two_channels(service: Service) -> None:
    """A flush is answered once, after the finals of both channels."""
    left, right = speech("talk.flac", seconds=3), speech("quilter.ogg", seconds=3)
    async with session(service.url, channels=2, multichannel=True) as websocket:
        await websocket.send(sent(np.stack([left, right], axis=1), 16_000, "pcm_s16le"))
        await websocket.send('{"type":"flush"}')
        events = [await receive(websocket)]
        while events[-1]["type"] != "flushed":
            events.append(await receive(websocket))
        assert {event["channel"] for event in events if event["type"] == "final"} == {0, 1}
        assert events[-1]["audio_ms"] == 3000
        await websocket.send('{"type":"stop"}')
        assert [event["type"] for event in await rest(websocket) if event["type"] != "speech"] == ["done"]


async def test_a_flush_at_another_rate(service: Service) -> None:
    """Everything but the last 30 ms becomes final at once; these are neither lost nor heard twice."""
    audio = sent(speech("talk.flac"), 8_000, "mulaw")
    async with session(service.url, encoding="mulaw", sample_rate=8_000) as websocket:
        marks = []
        for half in (audio[:32_000], audio[32_000:]):
            await websocket.send(half)
            await websocket.send('{"type":"flush"}')
            while (event := await receive(websocket))["type"] != "flushed":
                pass
            marks.append(event["audio_ms"])
        assert [mark // 1000 for mark in (marks[0] + 31, marks[1] + 31)] == [4, 8]
        await websocket.send('{"type":"stop"}')
        assert (await rest(websocket))[-1]["audio_ms"] == 8000


async def test_too_many_channels(triton: TritonServer) -> None:
    """A session that cannot have a slot for each channel gets none, and leaves the free ones to others."""
    async with serving(triton, sessions=3) as service, session(service.url, channels=2, multichannel=True):
        with pytest.raises(SessionError, match="2 channels need 2 sessions, but only 1 of 3 are free") as refused:
            await connect(service.url, {"channels": 2, "multichannel": True})
        assert refused.value.code == "full"
        assert text(await recognise(service.url, sent(speech("quilter.ogg"), 16_000, "pcm_s16le")))
    await no_streams(triton)


async def test_a_file_with_its_channels_apart(service: Service, tmp_path: Path) -> None:
    """The client sends the channels of a file separately, at 16 kHz."""
    left, right = (soxr.resample(side, 16_000, 44_100) for side in (speech("quilter.ogg", seconds=4), np.zeros(64_000)))
    soundfile.write(tmp_path / "call.wav", np.stack([right, left], axis=1), 44_100)
    events: list[Any] = [event async for event in transcribe(tmp_path / "call.wav", service.url, channels="separate")]
    assert {event["channel"] for event in events if event["type"] == "final"} == {1}
    assert events[-1]["audio_ms"] == pytest.approx(4000, abs=1)
    numbers = [event["n"] for event in events]
    assert all(after == before + 1 for before, after in pairwise(numbers))
