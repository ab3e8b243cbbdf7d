"""How the client sends audio, whole and at the right pace, and what it keeps of it, with random orders of events."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from websockets.asyncio.server import ServerConnection

import streamer.client.sending
from streamer.audio.recordings import AudioError
from streamer.base.options import Endpoint
from streamer.client import SessionError, transcribe
from streamer.client.sending import Entry, KeptAudio
from streamer.wire.native import Flush, Stop
from streamer.wire.options import Start
from tests.client.scripted_peer import READY, Polite, peer


async def test_a_source_is_sent_whole_between_start_and_stop() -> None:
    """Every sample arrives in order, however the source is divided, between the options and `stop`."""
    script = Polite()
    blocks: list[bytes | NDArray[np.int16]] = [
        np.arange(3, dtype=np.int16),
        b"\7\0",
        np.arange(40_000, dtype=np.int32).astype(np.int16),
    ]
    async with peer(script) as address:
        events = transcribe(blocks, address, options={"partials": False})
        assert [event["type"] async for event in events] == ["ready", "done"]
    assert script.sound == b"".join(block if isinstance(block, bytes) else block.tobytes() for block in blocks)
    assert script.texts == [{"type": "start", "partials": False}, {"type": "stop"}]


async def test_a_file_is_sent_by_its_name(tmp_path: Path) -> None:
    """A path is opened, and its samples are sent."""
    script = Polite()
    samples = np.arange(16_000, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, 16_000)
    async with peer(script) as address:
        events: list[Any] = [event async for event in transcribe(tmp_path / "a.wav", address)]
    assert events[-1]["audio_ms"] == 1000
    assert script.sound == samples.tobytes()


async def test_a_missing_file_is_noticed_before_connecting(tmp_path: Path) -> None:
    """A missing file is reported before a connection is opened."""
    with pytest.raises(AudioError, match="no such file"):
        await anext(transcribe(tmp_path / "a.wav", "127.0.0.1:1"))


@pytest.mark.parametrize(
    ("audio", "words"),
    [
        (
            np.zeros(160, np.float32),
            "an array of audio must be int16, not float32: give",
        ),
        ("missing.wav", "audio must be bytes or an array of int16, not str"),
    ],
)
async def test_what_is_no_audio_is_refused(audio: Any, words: str) -> None:
    """Fractions would be silence as whole numbers, so they are refused; so is everything that is no audio."""
    async with peer(Polite()) as address:
        with pytest.raises(TypeError, match=words):
            await transcribe([audio], address)


async def test_each_kind_of_bytes_is_the_same_audio() -> None:
    """Bytes, views of them and arrays in any order of bytes are sent alike."""
    samples = np.arange(800, dtype=np.int16)
    data = samples.tobytes()
    async with peer(script := Polite()) as address:
        kinds: list[Any] = [data, bytearray(data), memoryview(data), samples, samples.astype(">i2")]
        await transcribe(kinds, address)
    assert script.sound == 5 * data


def test_an_unknown_way_of_channels() -> None:
    """Channels are mixed or separate; anything else is refused at once."""
    with pytest.raises(ValueError, match="'channels' must be mix or separate, not 'both'"):
        transcribe("talk.wav", channels="both")  # type: ignore[arg-type]


async def test_paced_sends_as_fast_as_it_was_spoken() -> None:
    """With `paced`, half a second of audio takes half a second, in small pieces. Without it, it takes no time."""
    async with peer(script := Polite()) as address:
        async for _ in transcribe([bytes(16_000)], address, paced=True):
            pass
    assert len(script.times) == 5
    assert script.times[-1] - script.times[0] > 0.35
    async with peer(script := Polite()) as address:
        async for _ in transcribe([bytes(16_000)], address):
            pass
    assert len(script.times) == 1


async def test_sending_and_receiving_do_not_wait_for_each_other() -> None:
    """A peer that stops reading until its long answers are read causes no deadlock."""

    async def script(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(READY)
        for _ in range(100):
            await websocket.send(json.dumps({"type": "heard", "filling": "x" * 100_000}))
        async for message in websocket:
            if isinstance(message, str):
                await websocket.send('{"type":"done","audio_ms":0}')

    async with peer(script) as address:
        blocks = [bytes(32_000)] * 400
        kinds = [event["type"] async for event in transcribe(blocks, address)]
    assert kinds == ["ready", *["heard"] * 100, "done"]


async def test_a_slow_peer_holds_up_the_source() -> None:
    """If the peer does not read, the source is not read either, so nothing piles up."""
    taken = 0

    def source() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(4000):
            taken += 1
            yield bytes(32_000)

    async def script(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(READY)
        await asyncio.sleep(1)
        await websocket.close(1011, "enough")

    async with peer(script, close_timeout=0.1) as address:
        with pytest.raises(SessionError, match="enough"):
            async for _ in transcribe(source(), address):
                pass
    assert 0 < taken < 1000


async def test_a_failing_source_still_gets_its_words() -> None:
    """Audio before a failure of the source is recognised, and then the failure is raised."""

    def source() -> Iterator[bytes]:
        yield bytes(3200)
        raise AudioError("the recording is torn.")

    async with peer(script := Polite()) as address:
        events = transcribe(source(), address)
        assert [(await anext(events))["type"] for _ in range(2)] == ["ready", "done"]
        with pytest.raises(AudioError, match="torn"):
            await anext(events)
    assert len(script.sound) == 3200


async def test_a_silent_source_keeps_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keepalives are sent while a live source has no audio, but not too often."""
    monkeypatch.setattr(streamer.client.sending, "KEEPALIVE_S", 0.1)

    async def source() -> AsyncIterator[bytes]:
        for _ in range(30):
            await asyncio.sleep(0.01)
            yield b""

    async with peer(script := Polite()) as address:
        async for _ in transcribe(source(), address):
            pass
    assert 1 <= [text["type"] for text in script.texts].count("keepalive") < 15
    assert script.sound == b""


async def test_leaving_early_closes_the_connection() -> None:
    """Leaving the loop early leaves no session and no sender behind."""
    script = Polite()
    async with peer(script) as address:
        async with aclosing(transcribe([bytes(3200)] * 100_000, address, paced=True)) as events:
            assert (await anext(events))["type"] == "ready"
        await asyncio.wait_for(script.closed.wait(), 60)
    assert asyncio.all_tasks() == {asyncio.current_task()}


SECOND = 32_000  # bytes


def sent(kept: KeptAudio) -> list[Entry]:
    """Send everything, and return it."""
    found = []
    while (entry := kept.next()) is not None:
        found.append(entry)
        kept.sent()
    return found


def seconds(number: int, **options: Any) -> KeptAudio:
    """This many seconds of 16-bit audio, each with a value of its own, all of them sent."""
    kept = KeptAudio(Start(**options))
    for value in range(number):
        kept.add(bytes([value]) * SECOND)
    sent(kept)
    return kept


def test_a_session_is_resumed_from_a_sample() -> None:
    """A session can be resumed within a piece. Flushes that arrived are left out, `stop` never is."""
    kept = KeptAudio(Start())
    kept.add(b"aabb")
    kept.flush()
    kept.flush()
    kept.add(b"ccdd")
    kept.stop()
    assert sent(kept) == [b"aabb", Flush(), Flush(), b"ccdd", Stop()]
    assert kept.resume(1, 0)
    assert sent(kept) == [b"bb", Flush(), Flush(), b"ccdd", Stop()]
    assert kept.resume(2, 1)
    assert sent(kept) == [Flush(), b"ccdd", Stop()]
    assert kept.resume(3, 2)
    assert sent(kept) == [b"dd", Stop()]
    assert kept.resume(4, 2)
    assert sent(kept) == [Stop()]
    assert not kept.resume(5, 2)


def test_audio_goes_in_pieces() -> None:
    """No message is larger than the service accepts, however much audio is added at once."""
    kept = KeptAudio(Start())
    audio = bytes(range(250)) * 10_000
    kept.add(audio)
    pieces = [piece for piece in sent(kept) if isinstance(piece, bytes)]
    assert b"".join(pieces) == audio
    assert max(map(len, pieces)) == 32_768


def test_what_is_not_final_is_kept_for_another_session() -> None:
    """Audio is kept until it is final, although it was sent. The new session counts samples from its own beginning."""
    kept = seconds(10)
    kept.let_go(4500)
    assert 5500 <= kept.kept_ms < 6600
    assert kept.restart([3000]) is None
    assert kept.restart([4500]) == 4500
    audio = kept.next()
    assert isinstance(audio, bytes)
    assert (audio[0], kept.sent_ms) == (4, 4500)
    assert kept.resume(16_000, 0)
    assert kept.sent_ms == 5500
    assert not kept.resume(-24_000, 0)


def test_nothing_is_let_go_that_was_not_sent() -> None:
    """Audio that was not sent is kept, however much is said to be final."""
    kept = KeptAudio(Start())
    kept.add(bytes(SECOND))
    kept.let_go(1000)
    assert kept.kept_ms == 1000


def test_an_unanswered_flush_is_asked_again_of_another_session() -> None:
    """An unanswered flush is sent again to another session; an answered one is not."""
    kept = KeptAudio(Start())
    for _ in range(2):
        kept.add(bytes(SECOND))
        kept.flush()
    kept.add(bytes(SECOND))
    kept.stop()
    sent(kept)
    kept.answered(1)
    kept.let_go(1000)
    assert kept.restart([1000]) == 1000
    assert sent(kept) == [bytes(SECOND), Flush(), bytes(SECOND), Stop()]
    assert kept.resume(16_000, 1)
    assert sent(kept) == [bytes(SECOND), Stop()]


@pytest.mark.parametrize(("encoding", "silence"), [("pcm_s16le", 0), ("mulaw", 0xFF), ("alaw", 0xD5)])
def test_a_channel_that_was_ahead_hears_silence_first(encoding: str, silence: int) -> None:
    """Each channel continues at its own cut, even if pieces end within a sample, and after another loss."""
    start = Start(encoding=encoding, sample_rate=8000, channels=2, multichannel=True)
    kept, audio = KeptAudio(start), bytes([7]) * 8 * 8 * start.frame_bytes
    for at in range(0, len(audio), 13):
        kept.add(audio[at : at + 13])
    sent(kept)
    assert kept.restart([2, 5]) == 2
    assert kept.resume(8, 0)
    heard = b"".join(piece for piece in sent(kept) if isinstance(piece, bytes))
    width = start.frame_bytes // 2
    frames = [heard[at : at + start.frame_bytes] for at in range(0, len(heard), start.frame_bytes)]
    assert [frame[:width] for frame in frames] == [bytes([7]) * width] * 40
    assert [frame[width:] for frame in frames] == [bytes([silence]) * width] * 16 + [bytes([7]) * width] * 24


def test_there_is_a_bound() -> None:
    """If a service never acknowledges audio, only a limited amount is kept. No session can continue before that."""
    kept = seconds(100, endpoint=Endpoint(longest_ms=6000), encoding="pcm_f32le")
    assert kept.kept_ms == 50_000
    kept = KeptAudio(Start(sample_rate=192_000, channels=8, endpoint=Endpoint(longest_ms=6000)))
    most = 66 * 192_000 * 16 + 16 * 1024 * 1024
    for _ in range(80):
        kept.add(bytes(192_000 * 16))
        sent(kept)
    assert kept.offset(kept.kept_ms) <= most + 32_768
    assert not kept.resume(0, 0)
    assert kept.restart([0]) is None
    assert kept.resume(15 * 192_000, 0)


def test_a_flush_that_is_not_kept_is_not_forgotten_silently() -> None:
    """A service that did not get a dropped flush cannot resume the session."""
    kept = KeptAudio(Start(sample_rate=192_000, channels=8))
    kept.flush()
    for _ in range(100):
        kept.add(bytes(192_000 * 16))
        sent(kept)
    assert not kept.resume(50 * 192_000, 0)
    assert kept.resume(50 * 192_000, 1)


@pytest.mark.parametrize("seed", range(40))
def test_every_sample_and_flush_arrives_once(seed: int) -> None:
    """Every sample and flush arrives once and in order, wherever connections and services are lost."""
    dice = random.Random(seed)
    kept = KeptAudio(Start())
    given: list[Entry] = []
    arrived: list[Entry] = []  # at all sessions together
    final = answered = origin = origin_flushes = 0  # bytes; flushes

    def size() -> int:
        return sum(len(entry) for entry in arrived if isinstance(entry, bytes))

    def flushes() -> int:
        return sum(isinstance(entry, Flush) for entry in arrived)

    def flush_places() -> list[int]:
        places = accumulate(len(entry) if isinstance(entry, bytes) else 0 for entry in arrived)
        return [place for place, entry in zip(places, arrived, strict=True) if isinstance(entry, Flush)]

    def lose(least: int) -> None:
        """The last entries that were sent have not arrived, at most down to this place."""
        while arrived and isinstance(arrived[-1], bytes) and dice.random() < 0.7 and size() - len(arrived[-1]) >= least:
            arrived.pop()

    for number in range(400):
        kind = dice.randrange(10)
        if kind < 4:
            audio = bytes((number + at) % 251 for at in range(32 * dice.randint(1, 250)))
            kept.add(audio)
            given.append(audio)
        elif kind == 4:
            kept.flush()
            given.append(Flush())
        elif kind < 8:
            while (entry := kept.next()) is not None and dice.random() < 0.7:
                arrived.append(entry)
                kept.sent()
            if answered < flushes() and dice.random() < 0.5:
                answered += 1
                final = max(final, flush_places()[answered - 1])
            elif answered == flushes() and dice.random() < 0.3:
                final = size() // 32 * 32
            kept.answered(answered)
            kept.let_go(final / 32)
            assert kept.kept_ms <= kept.given_ms - final / 32 + 1100
        elif kind == 8:
            lose(max(final, origin))
            assert kept.resume((size() - origin) // 2, flushes() - origin_flushes)
        elif answered == flushes():
            # Another session: everything that is not final is recognised again.
            lose(final)
            while size() > final:
                over, last = size() - final, arrived.pop()
                assert isinstance(last, bytes)
                arrived += [last[:-over]] if over < len(last) else []
            assert kept.restart([final / 32]) == final / 32
            origin, origin_flushes = final, answered
    assert kept.resume((size() - origin) // 2, flushes() - origin_flushes)
    arrived += sent(kept)
    assert joined(arrived) == joined(given)


def joined(entries: list[Entry]) -> list[Entry]:
    """The same entries, with audio in one piece between flushes."""
    whole: list[Entry] = []
    for entry in entries:
        if isinstance(entry, bytes) and whole and isinstance(whole[-1], bytes):
            whole[-1] += entry
        else:
            whole.append(entry)
    return whole
