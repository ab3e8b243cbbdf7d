"""A session of several channels: one stream for each, and the messages about all of them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.bridge.session.session import Session
from streamer.bridge.session.stream import Request, SequenceState
from tests.bridge.session.driven_session import FLUSH, LIMITS, STEP, STOP, final, heard, parsed, partial, told

TWO = '{"type":"start","channels":2,"multichannel":true}'


class StreamGroup:
    """A session of several streams, driven by hand."""

    def __init__(self, start: str = TWO, *, ready: bool = True) -> None:
        self.now = 100.0
        self.session = Session("s1", "secret", ["default"], self.now, LIMITS)
        self.session.receive_text(start, self.now)
        self.got = [b""] * len(self.session.streams)
        if ready:
            for stream in self.ask():
                self.answer(stream)
            assert [message["type"] for message in self.messages()] == ["ready"]

    def text(self, text: str) -> None:
        self.session.receive_text(text, self.now)

    def audio(self, *channels: bytes) -> None:
        """Interleave the samples of the channels."""
        columns = [np.frombuffer(channel, "<i2") for channel in channels]
        self.session.receive_audio(np.stack(columns, axis=1).tobytes(), self.now)

    def ask(self) -> dict[int, Request]:
        requests = dict(self.session.requests(self.now))
        for stream, request in requests.items():
            self.got[stream] += request.pcm
        return requests

    def answer(self, stream: int, *events: dict[str, Any]) -> None:
        self.session.answer(stream, parsed(*events, heard(len(self.got[stream]))), self.now)

    def messages(self) -> list[dict[str, Any]]:
        return told(self.session)


def flushed(audio_ms: int) -> dict[str, Any]:
    return {"type": "flushed", "audio_ms": audio_ms}


def test_every_channel_has_its_sequence() -> None:
    """Each stream gets the samples of its channel, and its events name the channel."""
    streams = StreamGroup()
    streams.audio(b"a" * STEP, b"b" * STEP)
    assert streams.ask() == {0: Request(b"a" * STEP), 1: Request(b"b" * STEP)}
    streams.answer(1, partial("hi", 320))
    streams.answer(0, {"type": "speech", "state": "start", "at_ms": 40}, final("hello"))
    assert [(message["type"], message["channel"]) for message in streams.messages()] == [
        ("partial", 1),
        ("speech", 0),
        ("final", 0),
    ]


def test_channels_are_mixed_without_it() -> None:
    """Without `multichannel` two channels are mixed into one stream, and events name no channel."""
    streams = StreamGroup('{"type":"start","channels":2}')
    streams.audio(np.full(STEP // 2, 1000, "<i2").tobytes(), np.full(STEP // 2, 3000, "<i2").tobytes())
    [request] = streams.ask().values()
    assert set(np.frombuffer(request.pcm, "<i2")) == {2000}
    streams.answer(0, final("hello"))
    assert "channel" not in streams.messages()[0]


def test_one_channel_on_its_own() -> None:
    """With `multichannel` events name the channel even if there is only one."""
    streams = StreamGroup('{"type":"start","multichannel":true}')
    streams.audio(bytes(STEP))
    streams.ask()
    streams.answer(0, final("hello"))
    assert streams.messages()[0]["channel"] == 0


def test_ready_once_all_are() -> None:
    """No message and no audio goes out before the last stream has its slot; the others are kept alive."""
    streams = StreamGroup(ready=False)
    streams.audio(bytes(STEP), bytes(STEP))
    assert streams.ask() == {0: Request(start=True), 1: Request(start=True)}
    streams.answer(0)
    assert streams.messages() == []
    assert streams.ask() == {}
    assert streams.session.due_at() == streams.now + LIMITS.refresh_s
    streams.now += LIMITS.refresh_s
    assert streams.ask() == {0: Request()}
    streams.answer(0)
    streams.answer(1)
    assert [message["type"] for message in streams.messages()] == ["ready"]
    assert [len(request.pcm) for request in streams.ask().values()] == [STEP, STEP]


def test_flushed_when_all_are() -> None:
    """The answer to a flush comes when the last stream has reached it, however far ahead the others are."""
    streams = StreamGroup()
    streams.audio(bytes(100), bytes(100))
    streams.text(FLUSH)
    streams.text(FLUSH)
    assert set(streams.ask()) == {0, 1}
    streams.answer(0, flushed(3))
    assert set(streams.ask()) == {0}
    streams.answer(0, flushed(3))
    assert streams.messages() == []
    streams.answer(1, final("yes"), flushed(3))
    assert [message["type"] for message in streams.messages()] == ["final", "flushed"]
    streams.ask()
    streams.answer(1, flushed(3))
    assert [(message["type"], "channel" in message) for message in streams.messages()] == [("flushed", False)]


def test_heard_is_the_least() -> None:
    """`heard` acknowledges the audio that all streams have; a partial of one stream does not count for another."""
    streams = StreamGroup()
    streams.audio(bytes(2 * STEP), bytes(2 * STEP))
    streams.ask()
    streams.now += 1
    streams.answer(0, partial("one", 640))
    assert [message["type"] for message in streams.messages()] == ["partial"]
    streams.now += 1
    streams.answer(1)
    [message] = streams.messages()
    assert (message["type"], message["audio_ms"]) == ("heard", 640)


def test_done_when_all_are() -> None:
    """`done` comes after the last final of the last stream."""
    streams = StreamGroup()
    streams.audio(bytes(STEP), bytes(STEP))
    streams.text(STOP)
    assert [request.end for request in streams.ask().values()] == [True, True]
    streams.answer(0, final("a"))
    assert not streams.session.over
    assert [message["type"] for message in streams.messages()] == ["final"]
    streams.answer(1, final("b"))
    assert [message["type"] for message in streams.messages()] == ["final", "done"]
    assert streams.session.over


def test_one_failure_is_everybody_s() -> None:
    """A stream that fails ends the session; the others end without a further message."""
    streams = StreamGroup()
    streams.audio(bytes(STEP), bytes(STEP))
    streams.ask()
    streams.session.fail(0, "bad_request", "it broke", streams.now, lost=True)
    [error] = streams.messages()
    assert (error["code"], error["fatal"]) == ("failed", True)
    assert streams.ask() == {}
    streams.answer(1, final("too late"))
    assert streams.messages() == []
    assert streams.ask() == {1: Request(end=True)}
    streams.answer(1)
    assert streams.session.over


def test_no_slot_for_one_is_none_for_all() -> None:
    """If Triton has no slot for one stream after all, those of the others are given up at once."""
    streams = StreamGroup(ready=False)
    streams.ask()
    streams.answer(0)
    streams.session.fail(1, "full", "no slot in time", streams.now, lost=False)
    assert streams.messages()[0]["code"] == "full"
    assert streams.ask() == {0: Request(end=True), 1: Request(end=True)}
    streams.answer(0)
    streams.answer(1)
    assert streams.session.over
    assert all(stream.sequence is SequenceState.ENDED for stream in streams.session.streams)


def test_the_slowest_lane_holds_the_client_back() -> None:
    """Nothing is read while one stream is full, even if the others wait for more."""
    streams = StreamGroup()
    while not streams.session.full:
        streams.audio(bytes(STEP), bytes(STEP))
        if 0 in (asked := streams.ask()):
            assert asked[0].pcm
            streams.answer(0)
    assert len(streams.got[0]) > 9 * BYTES_PER_S
    assert len(streams.got[1]) == STEP


def test_the_size_of_a_frame_is_told() -> None:
    """Audio that ends between two channels is an error that names the bytes of a whole sample."""
    streams = StreamGroup()
    streams.session.receive_audio(bytes(6), streams.now)
    streams.text(STOP)
    assert [request.pcm for request in streams.ask().values()] == [bytes(2), bytes(2)]
    streams.answer(0)
    streams.answer(1)
    [error] = streams.messages()
    assert error["code"] == "odd_bytes"
    assert "6 bytes came, but in pcm_s16le a sample of each of the 2 channels has 4 bytes" in error["message"]


def test_another_rate() -> None:
    """Audio at 8 kHz is counted in its own milliseconds, and all of it reaches the model at the end."""
    streams = StreamGroup('{"type":"start","encoding":"mulaw","sample_rate":8000}')
    assert streams.session.start.bytes_per_s == 8000
    streams.session.receive_audio(bytes([0xFF]) * 8000, streams.now)
    while asked := streams.ask():
        [request] = asked.values()
        streams.answer(0)
    assert len(streams.got[0]) < BYTES_PER_S
    streams.text(STOP)
    [request] = streams.ask().values()
    assert request.end
    streams.answer(0)
    assert len(streams.got[0]) == BYTES_PER_S
    assert [message["audio_ms"] for message in streams.messages() if message["type"] == "done"] == [1000]


def test_any_order() -> None:
    """In any order of answers, each of three streams gets its own audio whole, and every flush is answered once."""
    for seed in range(30):
        chance = random.Random(seed)
        streams = StreamGroup('{"type":"start","channels":3,"multichannel":true}')
        under_way: dict[int, Request] = {}
        sent = [b""] * 3
        flushes, messages = 0, []
        for turn in range(300):
            action = chance.random()
            if turn == 250:
                streams.text(STOP)
            elif turn < 250 and action < 0.3 and not streams.session.full:
                pieces = [chance.randbytes(2 * (turn * 13 % 9000)) for _ in range(3)]
                pieces = [piece[: len(pieces[0])] for piece in pieces]
                streams.audio(*pieces)
                sent = [whole + piece for whole, piece in zip(sent, pieces, strict=True)]
            elif turn < 250 and action < 0.35 and not streams.session.full:
                streams.text(FLUSH)
                flushes += 1
            elif action < 0.6:
                under_way |= streams.ask()
            elif under_way:
                stream = chance.choice(sorted(under_way))
                streams.answer(stream, *([flushed(0)] if under_way.pop(stream).flush else []))
            messages += streams.messages()
        while not streams.session.over:
            under_way |= streams.ask()
            stream = chance.choice(sorted(under_way))
            streams.answer(stream, *([flushed(0)] if under_way.pop(stream).flush else []))
            messages += streams.messages()
        assert streams.got == sent
        assert sum(message["type"] == "flushed" for message in messages) == flushes
        assert messages[-1]["type"] == "done"
