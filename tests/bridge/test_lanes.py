"""A session of several channels: a lane for each, and what is said of all of them together."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from streamer.bridge.backlog import BYTES_PER_S
from streamer.bridge.lane import Request, Sequence
from streamer.bridge.session import Session
from tests.bridge.driven import FLUSH, LIMITS, STEP, STOP, final, heard, partial

TWO = '{"type":"start","channels":2,"multichannel":true}'


class Lanes:
    """A session of several lanes, driven by hand."""

    def __init__(self, start: str = TWO, *, ready: bool = True) -> None:
        self.now = 100.0
        self.session = Session("s1", "secret", "streaming_asr", self.now, LIMITS)
        self.session.receive_text(start, self.now)
        self.got = [b""] * len(self.session.lanes)
        if ready:
            for lane in self.ask():
                self.answer(lane)
            assert [message["type"] for message in self.messages()] == ["ready"]

    def text(self, text: str) -> None:
        self.session.receive_text(text, self.now)

    def audio(self, *channels: bytes) -> None:
        """Interleaves the samples of the channels."""
        columns = [np.frombuffer(channel, "<i2") for channel in channels]
        self.session.receive_audio(np.stack(columns, axis=1).tobytes(), self.now)

    def ask(self) -> dict[int, Request]:
        requests = dict(self.session.requests(self.now))
        for lane, request in requests.items():
            self.got[lane] += request.pcm
        return requests

    def answer(self, lane: int, *events: dict[str, Any]) -> None:
        self.session.answer(lane, [*events, heard(len(self.got[lane]))], self.now)

    def messages(self) -> list[dict[str, Any]]:
        return self.session.take_messages()


def flushed(audio_ms: int) -> dict[str, Any]:
    return {"type": "flushed", "audio_ms": audio_ms}


def test_every_channel_has_its_sequence() -> None:
    """Each lane gets the samples of its channel, and its events tell which one it is."""
    lanes = Lanes()
    lanes.audio(b"a" * STEP, b"b" * STEP)
    assert lanes.ask() == {0: Request(b"a" * STEP), 1: Request(b"b" * STEP)}
    lanes.answer(1, partial("hi", 320))
    lanes.answer(0, {"type": "speech", "state": "start", "at_ms": 40}, final("hello"))
    assert [(message["type"], message["channel"]) for message in lanes.messages()] == [
        ("partial", 1),
        ("speech", 0),
        ("final", 0),
    ]


def test_channels_are_mixed_without_it() -> None:
    """Two channels in one lane, and no event has a channel."""
    lanes = Lanes('{"type":"start","channels":2}')
    lanes.audio(np.full(STEP // 2, 1000, "<i2").tobytes(), np.full(STEP // 2, 3000, "<i2").tobytes())
    [request] = lanes.ask().values()
    assert set(np.frombuffer(request.pcm, "<i2")) == {2000}
    lanes.answer(0, final("hello"))
    assert "channel" not in lanes.messages()[0]


def test_one_channel_on_its_own() -> None:
    """Whoever asks for it is told the channel also where there is one."""
    lanes = Lanes('{"type":"start","multichannel":true}')
    lanes.audio(bytes(STEP))
    lanes.ask()
    lanes.answer(0, final("hello"))
    assert lanes.messages()[0]["channel"] == 0


def test_ready_once_all_are() -> None:
    """Nothing is said and no audio goes out before the last lane has its slot; the others are kept alive meanwhile."""
    lanes = Lanes(ready=False)
    lanes.audio(bytes(STEP), bytes(STEP))
    assert lanes.ask() == {0: Request(start=True), 1: Request(start=True)}
    lanes.answer(0)
    assert lanes.messages() == []
    assert lanes.ask() == {}
    assert lanes.session.due_at() == lanes.now + LIMITS.refresh_s
    lanes.now += LIMITS.refresh_s
    assert lanes.ask() == {0: Request()}
    lanes.answer(0)
    lanes.answer(1)
    assert [message["type"] for message in lanes.messages()] == ["ready"]
    assert [len(request.pcm) for request in lanes.ask().values()] == [STEP, STEP]


def test_flushed_when_all_are() -> None:
    """The answer to a flush comes when the last lane has got to it, however far ahead the others are."""
    lanes = Lanes()
    lanes.audio(bytes(100), bytes(100))
    lanes.text(FLUSH)
    lanes.text(FLUSH)
    assert set(lanes.ask()) == {0, 1}
    lanes.answer(0, flushed(3))
    assert set(lanes.ask()) == {0}
    lanes.answer(0, flushed(3))
    assert lanes.messages() == []
    lanes.answer(1, final("yes"), flushed(3))
    assert [message["type"] for message in lanes.messages()] == ["final", "flushed"]
    lanes.ask()
    lanes.answer(1, flushed(3))
    assert [(message["type"], "channel" in message) for message in lanes.messages()] == [("flushed", False)]


def test_heard_is_the_least() -> None:
    """`heard` tells how far all lanes are, and a partial of one of them tells nothing of the other."""
    lanes = Lanes()
    lanes.audio(bytes(2 * STEP), bytes(2 * STEP))
    lanes.ask()
    lanes.now += 1
    lanes.answer(0, partial("one", 640))
    assert [message["type"] for message in lanes.messages()] == ["partial"]
    lanes.now += 1
    lanes.answer(1)
    [message] = lanes.messages()
    assert (message["type"], message["audio_ms"]) == ("heard", 640)


def test_done_when_all_are() -> None:
    """The end is told after the last final of the last lane."""
    lanes = Lanes()
    lanes.audio(bytes(STEP), bytes(STEP))
    lanes.text(STOP)
    assert [request.end for request in lanes.ask().values()] == [True, True]
    lanes.answer(0, final("a"))
    assert not lanes.session.over
    assert [message["type"] for message in lanes.messages()] == ["final"]
    lanes.answer(1, final("b"))
    assert [message["type"] for message in lanes.messages()] == ["final", "done"]
    assert lanes.session.over


def test_one_failure_is_everybody_s() -> None:
    """A lane that fails ends the session; the others are ended without another word."""
    lanes = Lanes()
    lanes.audio(bytes(STEP), bytes(STEP))
    lanes.ask()
    lanes.session.fail(0, "bad_request", "it broke", lanes.now, lost=True)
    [error] = lanes.messages()
    assert (error["code"], error["fatal"]) == ("failed", True)
    assert lanes.ask() == {}
    lanes.answer(1, final("too late"))
    assert lanes.messages() == []
    assert lanes.ask() == {1: Request(end=True)}
    lanes.answer(1)
    assert lanes.session.over


def test_no_slot_for_one_is_none_for_all() -> None:
    """When Triton has no slot for one lane after all, those of the others are given up at once."""
    lanes = Lanes(ready=False)
    lanes.ask()
    lanes.answer(0)
    lanes.session.fail(1, "full", "no slot in time", lanes.now, lost=False)
    assert lanes.messages()[0]["code"] == "full"
    assert lanes.ask() == {0: Request(end=True), 1: Request(end=True)}
    lanes.answer(0)
    lanes.answer(1)
    assert lanes.session.over
    assert all(lane.sequence is Sequence.ENDED for lane in lanes.session.lanes)


def test_the_slowest_lane_holds_the_client_back() -> None:
    """Nothing is read while one lane has enough, though the others wait for more."""
    lanes = Lanes()
    while not lanes.session.full:
        lanes.audio(bytes(STEP), bytes(STEP))
        if 0 in (asked := lanes.ask()):
            assert asked[0].pcm
            lanes.answer(0)
    assert len(lanes.got[0]) > 9 * BYTES_PER_S
    assert len(lanes.got[1]) == STEP


def test_the_size_of_a_frame_is_told() -> None:
    """Audio that ends between two channels is an error that names the bytes of a whole."""
    lanes = Lanes()
    lanes.session.receive_audio(bytes(6), lanes.now)
    lanes.text(STOP)
    assert [request.pcm for request in lanes.ask().values()] == [bytes(2), bytes(2)]
    lanes.answer(0)
    lanes.answer(1)
    [error] = lanes.messages()
    assert error["code"] == "odd_bytes"
    assert "6 bytes came, but in pcm_s16le a sample of each of the 2 channels has 4 bytes" in error["message"]


def test_another_rate() -> None:
    """Audio at 8 kHz is counted in its own milliseconds, and all of it reaches the model at the end."""
    lanes = Lanes('{"type":"start","encoding":"mulaw","sample_rate":8000}')
    assert lanes.session.start.bytes_per_s == 8000
    lanes.session.receive_audio(bytes([0xFF]) * 8000, lanes.now)
    while asked := lanes.ask():
        [request] = asked.values()
        lanes.answer(0)
    assert len(lanes.got[0]) < BYTES_PER_S
    lanes.text(STOP)
    [request] = lanes.ask().values()
    assert request.end
    lanes.answer(0)
    assert len(lanes.got[0]) == BYTES_PER_S
    assert [message["audio_ms"] for message in lanes.messages() if message["type"] == "done"] == [1000]


def test_any_order() -> None:
    """However the answers of three lanes mix, each gets its own audio whole, and every flush is answered once."""
    for seed in range(30):
        chance = random.Random(seed)
        lanes = Lanes('{"type":"start","channels":3,"multichannel":true}')
        under_way: dict[int, Request] = {}
        sent = [b""] * 3
        flushes, messages = 0, []
        for turn in range(300):
            action = chance.random()
            if turn == 250:
                lanes.text(STOP)
            elif turn < 250 and action < 0.3 and not lanes.session.full:
                pieces = [chance.randbytes(2 * (turn * 13 % 9000)) for _ in range(3)]
                pieces = [piece[: len(pieces[0])] for piece in pieces]
                lanes.audio(*pieces)
                sent = [whole + piece for whole, piece in zip(sent, pieces, strict=True)]
            elif turn < 250 and action < 0.35 and not lanes.session.full:
                lanes.text(FLUSH)
                flushes += 1
            elif action < 0.6:
                under_way |= lanes.ask()
            elif under_way:
                lane = chance.choice(sorted(under_way))
                lanes.answer(lane, *([flushed(0)] if under_way.pop(lane).flush else []))
            messages += lanes.messages()
        while not lanes.session.over:
            under_way |= lanes.ask()
            lane = chance.choice(sorted(under_way))
            lanes.answer(lane, *([flushed(0)] if under_way.pop(lane).flush else []))
            messages += lanes.messages()
        assert lanes.got == sent
        assert sum(message["type"] == "flushed" for message in messages) == flushes
        assert messages[-1]["type"] == "done"
