"""The session as a state machine: fed with frames, answers and times, judged by what it hands out."""

from __future__ import annotations

import random
from typing import Any

import pytest

from streamer.bridge.backlog import BYTES_PER_S, HIGH_MARK, MOST_FLUSHES
from streamer.bridge.session import LIVE_MARK, Limits, Request, Sequence, Session, SessionError, State

STEP = 320 * BYTES_PER_S // 1000
START = '{"type":"start"}'
STOP = '{"type":"stop"}'
FLUSH = '{"type":"flush"}'
KEEPALIVE = '{"type":"keepalive"}'
LIMITS = Limits(start_s=10, idle_s=60, refresh_s=5)


class Driven:
    """A session together with the time and with the audio that its model has got."""

    def __init__(self, start: str | None = START, now: float = 100.0) -> None:
        self.now = now
        self.session = Session("s1", "secret", "streaming_asr", now, LIMITS)
        self.heard = 0
        if start is not None:
            self.session.receive_text(start, now)
            assert self.request() == Request(start=True)
            self.answer()
            assert self.said() == ["ready"]

    def text(self, text: str) -> None:
        self.session.receive_text(text, self.now)

    def audio(self, data: bytes) -> None:
        self.session.receive_audio(data, self.now)

    def request(self) -> Request | None:
        request = self.session.request(self.now)
        if request is not None:
            self.heard += len(request.pcm)
        return request

    def answer(self, *events: dict[str, Any]) -> None:
        audio_ms = self.heard * 1000 // BYTES_PER_S
        heard = {"type": "heard", "sample": self.heard // 2, "audio_ms": audio_ms}
        self.session.answer([*events, heard], self.now)

    def fail(self, code: str = "unavailable", *, lost: bool = False) -> None:
        self.session.fail(code, "it broke", lost=lost)

    def messages(self) -> list[dict[str, Any]]:
        return self.session.take_messages()

    def said(self) -> list[str]:
        return [message["type"] for message in self.messages()]

    def exchange(self, *events: dict[str, Any]) -> Request:
        request = self.request()
        assert request is not None
        self.answer(*events)
        return request

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.session.tick(self.now)

    def assert_refused(self, code: str, close_code: int, says: str = "") -> None:
        """The client gets one fatal error and the close code; nothing else follows."""
        (error,) = self.messages()
        assert (error["type"], error["code"], error["fatal"]) == ("error", code, True)
        assert says in error["message"]
        close = self.session.close
        assert close is not None
        assert close.code == close_code
        assert self.session.state is State.CLOSED
        assert self.session.ended_by == code

    def assert_ends(self) -> None:
        """The sequence gets exactly one END, without audio, and then the session is over."""
        assert not self.session.over
        assert self.exchange() == Request(end=True)
        assert self.request() is None
        assert self.messages() == []
        assert self.session.over


def partial(text: str, audio_ms: int) -> dict[str, Any]:
    return {"type": "partial", "segment": 0, "text": text, "stable": 0, "start_ms": 0, "audio_ms": audio_ms}


def final(text: str, segment: int = 0) -> dict[str, Any]:
    return {
        "type": "final",
        "segment": segment,
        "text": text,
        "start_ms": 0,
        "end_ms": 320,
        "confidence": 0.9,
    }


# What a session is for.


def test_whole_session() -> None:
    """Audio becomes requests, events become numbered messages, and stop brings the rest and close 1000."""
    driven = Driven(start=None)
    driven.text('{"type":"start","step_ms":160,"words":false}')
    assert driven.session.start.model_options()["step_ms"] == 160
    assert driven.exchange() == Request(start=True)
    driven.audio(b"a" * 5120)
    assert driven.exchange(partial("hello", 160)) == Request(b"a" * 5120)
    driven.audio(b"b" * 100)
    assert driven.request() is None
    driven.text(STOP)
    assert driven.exchange(final("hello there")) == Request(b"b" * 100, end=True)
    messages = driven.messages()
    assert [message["type"] for message in messages] == ["ready", "partial", "final", "done"]
    assert [message["n"] for message in messages] == [1, 2, 3, 4]
    assert messages[0] == {
        "type": "ready",
        "n": 1,
        "session": "s1",
        "token": "secret",
        "model": "streaming_asr",
        "sample_rate": 16000,
        "from_sample": 0,
    }
    assert messages[2] == {"n": 3, **final("hello there")}
    assert messages[3]["audio_ms"] == 163
    assert driven.session.close is not None
    assert driven.session.close.code == 1000
    assert driven.session.ended_by == "done"
    assert driven.session.over


def test_ready_means_accepted() -> None:
    """The client is told `ready` once the model holds a slot for it, and audio sent before that is kept."""
    driven = Driven(start=None)
    driven.text(START)
    driven.audio(bytes(STEP))
    assert driven.request() == Request(start=True)
    assert driven.said() == []
    driven.answer()
    assert driven.said() == ["ready"]
    assert driven.request() == Request(bytes(STEP))


def test_one_request_at_a_time() -> None:
    """While an answer is owed no other request is handed out."""
    driven = Driven()
    driven.audio(bytes(2 * STEP))
    assert driven.request() is not None
    driven.audio(bytes(STEP))
    assert driven.request() is None


def test_behind_schedule() -> None:
    """Audio that gathered while the model computed travels in one request."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.request()
    driven.audio(bytes(3 * STEP + 10))
    driven.answer()
    assert driven.request() == Request(bytes(3 * STEP))


def test_flush() -> None:
    """A flush takes the rest of the audio with it and its answer goes to the client."""
    driven = Driven()
    driven.audio(bytes(100))
    driven.text(FLUSH)
    assert driven.exchange(final("yes"), {"type": "flushed", "audio_ms": 3}) == Request(bytes(100), flush=True)
    assert driven.said() == ["final", "flushed"]
    driven.audio(bytes(STEP))
    assert driven.request() == Request(bytes(STEP))


def test_flush_and_stop_at_once() -> None:
    """Flush and stop behind waiting audio are answered in their order."""
    driven = Driven()
    driven.audio(bytes(STEP + 2))
    driven.text(FLUSH)
    driven.text(STOP)
    assert driven.exchange({"type": "flushed", "audio_ms": 320}) == Request(bytes(STEP + 2), flush=True)
    assert driven.exchange() == Request(end=True)
    assert driven.said() == ["flushed", "done"]


def test_flushed_is_an_answer() -> None:
    """A client that did not flush is not told `flushed` when the model says it at the end."""
    driven = Driven()
    driven.text(STOP)
    driven.exchange({"type": "flushed", "audio_ms": 0})
    assert driven.said() == ["done"]


def test_stop_without_audio() -> None:
    """A session of no audio ends well."""
    driven = Driven()
    driven.text(STOP)
    assert driven.exchange() == Request(end=True)
    assert driven.messages() == [{"type": "done", "n": 2, "audio_ms": 0}]


def test_stop_before_ready() -> None:
    """A client may send everything without waiting for `ready`."""
    driven = Driven(start=None)
    for frame in (START, STOP):
        driven.text(frame)
    assert [driven.exchange(), driven.exchange()] == [Request(start=True), Request(end=True)]
    assert driven.said() == ["ready", "done"]


def test_only_events_for_clients() -> None:
    """What the model says for the bridge alone does not reach the client."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.exchange({"type": "cut", "sample": 5120}, {"type": "speech", "state": "start", "at_ms": 40})
    assert driven.said() == ["speech"]


def test_heard_is_rare() -> None:
    """`heard` comes at most twice a second, only when nothing else is said and only with news."""
    driven = Driven()
    told = []
    for _ in range(10):
        driven.now += 0.2
        driven.audio(bytes(STEP))
        driven.exchange()
        told += [(round(driven.now - 100, 1), message["audio_ms"]) for message in driven.messages()]
    assert told == [(0.6, 960), (1.2, 1920), (1.8, 2880)]
    assert driven.session.due_at() == pytest.approx(102.3)
    driven.later(0.3)
    assert driven.messages() == [{"type": "heard", "n": 5, "audio_ms": 3200}]
    driven.later(LIMITS.refresh_s)
    driven.exchange()
    assert driven.said() == []


def test_heard_behind_a_partial() -> None:
    """A partial has told how much was heard: nothing more is said."""
    driven = Driven()
    driven.now += 1
    driven.audio(bytes(STEP))
    driven.exchange(partial("one", 320))
    assert driven.said() == ["partial"]
    driven.now += 5
    driven.exchange()
    assert driven.said() == []


def test_silent_sequence_is_kept_alive() -> None:
    """A session that is open but silent sends empty requests, so that Triton does not forget it."""
    driven = Driven()
    assert driven.session.due_at() == driven.now + LIMITS.refresh_s
    driven.now += LIMITS.refresh_s
    assert driven.exchange() == Request()
    assert driven.request() is None


def test_nothing_is_due_while_an_answer_is_owed() -> None:
    """While the model computes, no empty request is due, however long it takes."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.request()
    due = driven.session.due_at()
    assert due is not None
    assert due > driven.now + LIMITS.refresh_s


# What clients do wrong.


@pytest.mark.parametrize("text", [FLUSH, KEEPALIVE, STOP])
def test_message_before_start(text: str) -> None:
    """Nothing but start opens a session, and the error names the expected and the met state."""
    driven = Driven(start=None)
    driven.text(text)
    driven.assert_refused("unexpected", 4000, "when the session is streaming; it is opening")
    assert driven.session.over


def test_audio_before_start() -> None:
    """Audio before start is refused with what to do."""
    driven = Driven(start=None)
    driven.audio(bytes(100))
    driven.assert_refused("unexpected", 4000, 'send {"type":"start"} first')
    assert driven.session.over


def test_second_start() -> None:
    """A session is started once; its sequence is ended."""
    driven = Driven()
    driven.text(START)
    driven.assert_refused("unexpected", 4000, "when the session is opening; it is streaming")
    driven.assert_ends()


@pytest.mark.parametrize(
    ("text", "code", "close_code"),
    [
        ("{", "bad_json", 4000),
        ('{"type":"go"}', "unknown_type", 4000),
        ('{"type":"flush","x":1}', "unknown_option", 4000),
    ],
)
def test_bad_message(text: str, code: str, close_code: int) -> None:
    """A message that is none closes the session, and the sequence is ended without the audio that waits."""
    driven = Driven()
    driven.audio(bytes(2 * STEP))
    driven.text(text)
    driven.assert_refused(code, close_code)
    driven.assert_ends()


def test_unsupported_audio() -> None:
    """Audio of a kind that is not taken is refused before a slot is asked for."""
    driven = Driven(start=None)
    driven.text('{"type":"start","sample_rate":8000}')
    driven.assert_refused("unsupported_audio", 4001, "send 16000")
    assert driven.request() is None
    assert driven.session.over


def test_bad_message_while_the_model_computes() -> None:
    """END waits for the answer that is owed, and that answer reaches nobody any more."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.request()
    driven.text("{")
    driven.assert_refused("bad_json", 4000)
    assert driven.request() is None
    assert not driven.session.over
    driven.answer(final("too late"))
    driven.assert_ends()


def test_after_stop() -> None:
    """What comes after stop is ignored, said once, and the finals still come."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.text(STOP)
    driven.audio(bytes(STEP))
    driven.audio(bytes(STEP))
    driven.text(FLUSH)
    driven.text("{")
    driven.text(KEEPALIVE)
    driven.text(STOP)
    assert driven.exchange(final("word")) == Request(bytes(STEP), end=True)
    error, last, done = driven.messages()
    assert (error["code"], error["fatal"]) == ("after_stop", False)
    assert (last["type"], done["type"], done["audio_ms"]) == ("final", "done", 320)


def test_half_sample_between_frames() -> None:
    """Frames of an odd number of bytes are joined: only the whole counts."""
    driven = Driven()
    driven.audio(b"abc")
    driven.audio(b"d")
    driven.text(STOP)
    assert driven.exchange() == Request(b"abcd", end=True)
    assert driven.said() == ["done"]


def test_half_sample_at_the_end() -> None:
    """An odd number of bytes in all: the words still come, then the error and 4000 instead of done."""
    driven = Driven()
    driven.audio(b"abc")
    driven.text(STOP)
    assert driven.exchange(final("word")) == Request(b"ab", end=True)
    last, error = driven.messages()
    assert last["type"] == "final"
    assert (error["code"], error["fatal"]) == ("odd_bytes", True)
    assert "3 bytes" in error["message"]
    assert driven.session.close is not None
    assert driven.session.close.code == 4000
    assert driven.session.over


def test_client_vanishes() -> None:
    """A client that is gone gets nothing, its audio is dropped, its sequence is ended."""
    driven = Driven()
    driven.audio(bytes(5 * STEP))
    driven.session.vanish()
    assert driven.session.ended_by == "vanished"
    driven.audio(bytes(STEP))
    driven.text(STOP)
    driven.assert_ends()


def test_client_vanishes_before_start() -> None:
    """A connection that never started leaves nothing to end."""
    driven = Driven(start=None)
    driven.session.vanish()
    assert driven.request() is None
    assert driven.session.over


def test_client_vanishes_after_stop() -> None:
    """Also a session that was finishing is ended without computing what nobody will read."""
    driven = Driven()
    driven.audio(bytes(20 * STEP))
    driven.text(STOP)
    driven.exchange()
    driven.session.vanish()
    driven.assert_ends()


def test_client_vanishes_while_the_sequence_opens() -> None:
    """The START that is under way is followed by END."""
    driven = Driven(start=None)
    driven.text(START)
    assert driven.request() == Request(start=True)
    driven.session.vanish()
    assert driven.request() is None
    driven.answer()
    driven.assert_ends()


def test_client_does_not_read() -> None:
    """A client that does not read is closed with a reason and no further message."""
    driven = Driven()
    driven.session.stall(30)
    assert driven.messages() == []
    assert driven.session.close is not None
    assert (driven.session.close.code, driven.session.ended_by) == (4008, "not_read")
    assert "30 s" in driven.session.close.reason
    driven.assert_ends()


def test_closed_session_is_read_on() -> None:
    """A client that was held back is read again when its session closes: its close frame is still to come."""
    driven = Driven()
    driven.audio(bytes(2 * HIGH_MARK))
    assert driven.session.full
    driven.session.vanish()
    assert not driven.session.full


# Pace.


def test_fast_client_is_held_back() -> None:
    """A client that sends faster than the model computes is read no further for a while, and loses nothing."""
    driven = Driven()
    sent = got = 0
    stops = 0
    for _ in range(100):
        while not driven.session.full:
            driven.audio(bytes(STEP))
            sent += STEP
        stops += 1
        while driven.session.full:
            got += len(driven.exchange().pcm)
        assert sent - got <= HIGH_MARK + STEP
    assert driven.session.state is State.STREAMING
    driven.text(STOP)
    while not driven.session.over:
        got += len(driven.exchange().pcm)
    assert got == sent
    assert stops == 100


def test_live_client_too_fast() -> None:
    """A live session is never held back; when too much waits it is closed with 4029."""
    driven = Driven(start=None)
    driven.text('{"type":"start","live":true}')
    driven.exchange()
    assert driven.said() == ["ready"]
    driven.audio(bytes(LIVE_MARK))
    assert not driven.session.full
    assert driven.session.state is State.STREAMING
    driven.audio(bytes(2))
    driven.assert_refused("too_fast", 4029, "20 s")
    driven.assert_ends()


def test_flushes_hold_back() -> None:
    """Flushes that pile up stop the reading, and close a live session."""
    driven, live = Driven(), Driven(start=None)
    live.text('{"type":"start","live":true}')
    for _ in range(MOST_FLUSHES):
        driven.text(FLUSH)
        live.text(FLUSH)
    assert driven.session.full
    assert live.session.ended_by == "too_fast"
    driven.exchange({"type": "flushed", "audio_ms": 0})
    assert not driven.session.full


# Time.


def test_no_start() -> None:
    """A connection that does not start is closed after a while."""
    driven = Driven(start=None)
    assert driven.session.due_at() == 110.0
    driven.later(9.9)
    assert driven.session.close is None
    driven.later(0.1)
    driven.assert_refused("no_start", 4008, "10 s")
    assert driven.session.over


def test_idle() -> None:
    """A session with neither audio nor keepalive ends with the words of what it heard, an error and 4008."""
    driven = Driven()
    driven.audio(bytes(100))
    driven.later(59.9)
    assert driven.session.state is State.STREAMING
    driven.later(0.2)
    assert driven.session.state is State.FINISHING
    driven.audio(bytes(100))
    assert driven.exchange(final("well")) == Request(bytes(100), end=True)
    last, error = driven.messages()
    assert last["text"] == "well"
    assert (error["code"], error["fatal"]) == ("idle", True)
    assert '{"type":"keepalive"}' in error["message"]
    assert driven.session.close is not None
    assert driven.session.close.code == 4008


@pytest.mark.parametrize("frame", [KEEPALIVE, FLUSH, b"\0\0"])
def test_not_idle(frame: str | bytes) -> None:
    """Every frame of the client counts as a sign of life."""
    driven = Driven()
    driven.later(40)
    if isinstance(frame, str):
        driven.text(frame)
    else:
        driven.audio(frame)
    driven.later(40)
    assert driven.session.state is State.STREAMING
    driven.later(21)
    assert driven.session.state is State.FINISHING


def test_not_idle_while_the_model_computes() -> None:
    """The time that the model takes, or that the client is held back, is not the client's."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.request()
    driven.later(100)
    driven.answer()
    driven.later(30)
    driven.audio(bytes(2 * HIGH_MARK))
    assert driven.session.full
    driven.later(100)
    assert driven.session.state is State.STREAMING


def test_own_keepalive_is_no_sign_of_life() -> None:
    """The bridge's empty requests do not keep a session open whose client is silent."""
    driven = Driven()
    for _ in range(11):
        driven.later(LIMITS.refresh_s)
        assert driven.exchange() == Request()
    driven.later(LIMITS.refresh_s)
    assert driven.exchange() == Request(end=True)
    assert driven.session.ended_by == "idle"


def test_due_at_is_never_passed_without_work() -> None:
    """Whenever the time that it asked for has come, the session has something to do."""
    driven = Driven()
    for _ in range(200):
        due = driven.session.due_at()
        if due is None:
            break
        driven.later(max(0.0, due - driven.now))
        request = driven.request()
        assert request is not None
        driven.answer()
    assert driven.session.ended_by == "idle"


# The model fails, the service ends.


def test_model_fails() -> None:
    """A failed request ends the session with 1011; its sequence may live on, so it is ended."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.exchange()
    driven.audio(bytes(STEP))
    driven.request()
    driven.fail("failed")
    driven.assert_refused("failed", 1011, "after 320 ms")
    driven.assert_ends()


def test_model_is_lost() -> None:
    """When the way to the sequence is lost there is nothing left to end."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.request()
    driven.fail(lost=True)
    driven.assert_refused("failed", 1011, "unavailable")
    assert driven.request() is None
    assert driven.session.sequence is Sequence.ENDED
    assert driven.session.over


def test_model_fails_at_the_end() -> None:
    """A failed END is not tried again."""
    driven = Driven()
    driven.text(STOP)
    driven.request()
    driven.fail()
    driven.assert_refused("failed", 1011)
    assert driven.session.over


def test_model_fails_for_nobody() -> None:
    """A failure after the client has gone is said to nobody."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.request()
    driven.session.vanish()
    driven.fail()
    assert driven.messages() == []
    driven.assert_ends()


@pytest.mark.parametrize("code", ["full", "not_ready", "shutting_down"])
def test_no_room(code: str) -> None:
    """When no slot is to be had now, the refusal says when to try again; what Triton may hold is ended."""
    driven = Driven(start=None)
    driven.text(START)
    driven.request()
    driven.fail(code)
    driven.assert_refused(code, 1013)
    assert driven.session.close is not None
    assert "5 s" in driven.session.close.reason
    driven.assert_ends()


def test_model_refuses_options() -> None:
    """Options that only the model can judge come back as a bad message."""
    driven = Driven(start=None)
    driven.text(START)
    driven.request()
    driven.fail("bad_options")
    driven.assert_refused("bad_option", 4000, "it broke")


def test_drain() -> None:
    """At shutdown what was heard becomes final, then the client is told to come back."""
    driven = Driven()
    driven.audio(bytes(STEP + 100))
    driven.session.drain()
    assert driven.exchange(final("so far")) == Request(bytes(STEP + 100), end=True)
    last, error = driven.messages()
    assert (last["text"], error["code"], error["fatal"]) == ("so far", "shutting_down", True)
    assert driven.session.close is not None
    assert driven.session.close.code == 1013


def test_drain_before_start() -> None:
    """A connection that has not started is refused at shutdown."""
    driven = Driven(start=None)
    driven.session.drain()
    driven.assert_refused("shutting_down", 1013)


def test_drain_after_stop() -> None:
    """A session that is finishing anyway ends as its client asked."""
    driven = Driven()
    driven.text(STOP)
    driven.session.drain()
    driven.exchange()
    assert driven.said() == ["done"]


def test_refuse() -> None:
    """A refusal is an error and a close that names the seconds."""
    driven = Driven(start=None)
    driven.session.refuse("full", "All 4 sessions are taken.")
    driven.assert_refused("full", 1013, "All 4")
    assert driven.session.close is not None
    assert driven.session.close.reason == "full: try again in 5 s"


def test_misuse() -> None:
    """An answer that nobody asked for is an error of the driver, naming both states."""
    with pytest.raises(SessionError, match="expected a request under way, met none while streaming"):
        Driven().answer()


@pytest.mark.parametrize("seed", range(60))
def test_any_order(seed: int) -> None:
    """Whatever comes in whatever order: one START, one END, audio in order and only once."""
    chance = random.Random(seed)
    driven = Driven(start=None)
    session = driven.session
    requests: list[Request] = []
    messages: list[dict[str, Any]] = []
    sent = b""
    flushes = 0
    under_way = False
    faults = seed % 2 == 1
    texts = [FLUSH] * 4 + [KEEPALIVE] * 4 + [STOP] + ([START, "{"] if faults else [])
    driven.text(START)
    for turn in range(400):
        action = chance.random()
        taking = session.state is State.STREAMING
        if action < 0.45 and not session.full:
            data = chance.randbytes(chance.choice([1, 7, 1000, STEP, 9 * STEP]))
            driven.audio(data)
            sent += data if taking else b""
        elif action < 0.5 and turn > 150 and not session.full:
            text = chance.choice(texts)
            driven.text(text)
            flushes += taking and text == FLUSH
        elif action < 0.7 and not under_way:
            request = session.request(driven.now)
            if request is not None:
                requests.append(request)
                under_way = True
        elif action < 0.97 and under_way:
            events = [final("x")] if requests[-1].pcm else []
            if requests[-1].flush:
                events.append({"type": "flushed", "audio_ms": 0})
            driven.answer(*events)
            under_way = False
        elif action > 0.996 and faults:
            session.vanish()
        elif action > 0.992 and under_way and faults:
            driven.fail(lost=chance.random() < 0.5)
            under_way = False
        else:
            driven.later(chance.random())
        messages += session.take_messages()
    if session.state is State.STREAMING:
        driven.text(STOP)
    while not session.over:
        if not under_way:
            request = session.request(driven.now)
            assert request is not None
            requests.append(request)
        driven.answer(*([{"type": "flushed", "audio_ms": 0}] if requests[-1].flush else []))
        under_way = False
    messages += session.take_messages()

    assert [request.start for request in requests] == [True] + [False] * (len(requests) - 1)
    assert not any(request.end for request in requests[:-1])
    got = b"".join(request.pcm for request in requests)
    whole = sent[: len(sent) - len(sent) % 2]
    assert whole.startswith(got)
    assert [message["n"] for message in messages] == list(range(1, len(messages) + 1))
    assert session.ended_by
    print("ENDED", session.ended_by)
    if session.ended_by in ("done", "odd_bytes"):
        assert got == whole
        assert (session.ended_by == "odd_bytes") == bool(len(sent) % 2)
        assert sum(message["type"] == "flushed" for message in messages) == flushes
        assert requests[-1].end
