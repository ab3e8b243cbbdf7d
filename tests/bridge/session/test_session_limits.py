"""The session as a state machine: pace, time, and events in any order."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from streamer.bridge.session.backlog import BYTES_PER_S, FEW_FLUSHES, HIGH_MARK, MOST_FLUSHES
from streamer.bridge.session.session import LIVE_MARK, State
from streamer.bridge.session.stream import Request
from streamer.bridge.states import StateError
from streamer.wire.options import EnrolledVoice
from tests.bridge.session.driven_session import FLUSH, KEEPALIVE, LIMITS, START, STEP, STOP, Driven, final, told

# The wait for a model that is being loaded.


def test_the_model_is_loaded_first() -> None:
    """The client is told once, with a message before the first one; its audio waits, and nothing of it is lost."""
    driven = Driven(start=None)
    driven.text('{"type":"start","model":"fast"}')
    for _ in range(3):
        driven.session.await_model(driven.now)
        driven.audio(bytes(STEP))
    assert driven.messages() == [{"type": "starting", "n": 0, "model": "fast"}]
    driven.later(LIMITS.load_s - 0.1)
    assert driven.exchange() == Request(start=True)
    [ready] = driven.messages()
    assert (ready["type"], ready["n"]) == ("ready", 1)
    driven.later(1)
    assert driven.exchange() == Request(bytes(3 * STEP))
    assert driven.session.state is State.STREAMING


def test_the_model_is_not_loaded_in_time() -> None:
    """The client is told to come back, before too much live audio waits."""
    assert LIMITS.load_s * BYTES_PER_S < LIVE_MARK
    driven = Driven(start=None)
    driven.text('{"type":"start","live":true}')
    driven.session.await_model(driven.now)
    driven.audio(bytes(STEP))
    assert driven.said() == ["starting"]
    assert driven.session.due_at() is not None
    driven.later(LIMITS.load_s)
    driven.assert_refused("not_ready", 1013, "still being loaded")
    assert driven.session.over


# Pace.


def test_fast_client_is_held_back() -> None:
    """A client that sends faster than the model computes is not read for a while, and loses nothing."""
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
    """A live session is never held back; if too much audio waits, it is closed with 4029."""
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


def live_beside_a_busy_model(flushes: bool = False) -> Driven:
    """Return a live session that sends at the speed of speech, and whose model needs 4 s for each answer."""
    driven = Driven(start=None)
    driven.text('{"type":"start","live":true}')
    driven.exchange()
    assert driven.said() == ["ready"]
    driven.audio(bytes(STEP))
    while driven.session.state is State.STREAMING and driven.now < 400:
        assert driven.request() is not None
        for _ in range(4):
            driven.audio(bytes(BYTES_PER_S))
            if flushes:
                driven.text(FLUSH)
            driven.later(1)
        if driven.session.state is State.STREAMING:
            driven.answer()
    return driven


@pytest.mark.parametrize("flushes", [False, True])
def test_a_live_client_does_not_pay_for_a_busy_model(flushes: bool) -> None:
    """Audio and flushes that wait because the model does not answer do not count. But not without end."""
    driven = live_beside_a_busy_model(flushes)
    assert 150 < driven.now < 300
    *_, error = driven.messages()
    assert (error["code"], error["fatal"]) == ("failed", True)
    assert "too busy for 60 s" in error["message"]
    assert error["unrecognised_ms"] > 60_000


def test_a_live_client_may_still_be_too_fast() -> None:
    """Beside a busy model, audio that comes much faster than it is spoken still closes a live session."""
    driven = Driven(start=None)
    driven.text('{"type":"start","live":true}')
    driven.exchange()
    driven.messages()
    driven.audio(bytes(STEP))
    driven.request()
    driven.later(10)
    driven.audio(bytes(LIVE_MARK + 10 * BYTES_PER_S))
    assert driven.session.state is State.STREAMING
    driven.audio(bytes(2))
    driven.assert_refused("too_fast", 4029, "20 s")


def test_flushes_hold_back() -> None:
    """Too many waiting flushes stop the reading until half of them are answered, and close a live session."""
    driven, live = Driven(), Driven(start=None)
    live.text('{"type":"start","live":true}')
    for _ in range(MOST_FLUSHES):
        driven.text(FLUSH)
        live.text(FLUSH)
    assert driven.session.full
    assert live.session.ended_by == "too_fast"
    for _ in range(MOST_FLUSHES - FEW_FLUSHES):
        driven.exchange({"type": "flushed", "audio_ms": 0})
        assert driven.session.full
    driven.exchange({"type": "flushed", "audio_ms": 0})
    assert not driven.session.full


# Time.


def test_no_start() -> None:
    """A connection without start is closed after a while."""
    driven = Driven(start=None)
    assert driven.session.due_at() == 110.0
    driven.later(9.9)
    assert driven.session.close is None
    driven.later(0.1)
    driven.assert_refused("no_start", 4008, "10 s")
    assert driven.session.over


def test_idle() -> None:
    """A session without audio or keepalive gets its last words, an error and 4008."""
    driven = Driven()
    driven.audio(bytes(100))
    driven.later(59.9)
    assert driven.session.state is State.STREAMING
    driven.later(0.2)
    assert driven.session.state is State.FINISHING
    driven.audio(bytes(100))
    assert driven.exchange(final("well")) == Request(bytes(100), end=True)
    last, error = driven.messages()
    assert (last["text"], last["abrupt"]) == ("well", True)
    assert (error["code"], error["fatal"]) == ("idle", True)
    assert '{"type":"keepalive"}' in error["message"]
    assert driven.session.close is not None
    assert driven.session.close.code == 4008


@pytest.mark.parametrize("frame", [KEEPALIVE, FLUSH, b"\0\0"])
def test_not_idle(frame: str | bytes) -> None:
    """Every frame of the client restarts the idle limit."""
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


def test_not_idle_before_it_is_ready() -> None:
    """A client need not send anything while it waits for `ready`, however long that takes."""
    driven = Driven(start=None)
    driven.text(START)
    assert driven.request() == Request(start=True)
    driven.later(LIMITS.idle_s - 1)
    driven.later(2)
    driven.answer()
    driven.later(1)
    assert driven.said() == ["ready"]
    assert driven.session.state is State.STREAMING
    driven.later(LIMITS.idle_s + 1)
    assert driven.session.state is State.FINISHING


def test_the_time_to_speak_begins_when_it_is_ready() -> None:
    """The idle limit begins at `ready`, even if the session was not ticked for long."""
    driven = Driven(start=None)
    driven.text(START)
    driven.request()
    driven.now += LIMITS.idle_s + 1  # without a tick meanwhile
    driven.answer()
    driven.later(LIMITS.idle_s - 1)
    assert driven.session.state is State.STREAMING
    driven.later(1)
    assert driven.session.state is State.FINISHING


def test_not_idle_after_it_was_held_back() -> None:
    """After a pause in reading, a client has as long again, because its data may need that time to arrive."""
    driven, held_s = Driven(), 40.0
    while not driven.session.full:
        driven.audio(bytes(STEP))
    driven.later(0)
    driven.later(held_s)
    while driven.session.full:
        driven.exchange()
    driven.later(0)
    driven.audio(bytes(2))  # data that was already under way does not show that the rest has come
    while driven.session.waiting_bytes >= STEP:
        driven.exchange()
    driven.later(held_s + LIMITS.idle_s - 1)
    assert driven.session.state is State.STREAMING
    driven.later(1)
    assert driven.session.state is State.FINISHING
    # It was held back once; from now on the usual limit applies.
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.exchange()
    driven.later(LIMITS.idle_s)
    assert driven.session.state is State.FINISHING


def test_not_idle_while_the_model_computes() -> None:
    """Time in which the model computes, or the client is held back, does not count as idle."""
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


def test_a_recording_of_a_voice_is_kept_until_it_was_heard() -> None:
    """The session asks about it once, and keeps the name alone."""
    audio = base64.b64encode(bytes(64_000)).decode()
    voices = [{"name": "Ada", "audio": audio}]
    driven = Driven(start=json.dumps({"type": "start", "speakers": True, "voices": voices}))
    assert driven.session.start.voices == (EnrolledVoice("Ada", b""),)
    driven.audio(bytes(STEP))
    [(stream, question)] = driven.session.questions(driven.now)
    assert (stream, question.enrolled, len(question.pcm)) == (0, 0, 64_000)


def test_names_of_speakers_are_known_from_then_on() -> None:
    """The client may name speakers at any time, also after `stop`; nothing else changes, and nothing is answered."""
    driven = Driven()
    start = driven.session.start
    for name, after in (("Ada", STOP), ("Grace", KEEPALIVE)):
        driven.text(json.dumps({"type": "speaker_names", "names": [name]}))
        assert driven.session.start == replace(start, speaker_names=(name,))
        driven.text(after)
    assert driven.session.state is State.FINISHING
    assert driven.messages() == []


def test_own_keepalive_is_no_sign_of_life() -> None:
    """Empty requests of the bridge do not keep the session of a silent client open."""
    driven = Driven()
    for _ in range(11):
        driven.later(LIMITS.refresh_s)
        assert driven.exchange() == Request()
    driven.later(LIMITS.refresh_s)
    assert driven.exchange() == Request(end=True)
    assert driven.session.ended_by == "idle"


def test_due_at_is_never_passed_without_work() -> None:
    """Whenever a time from due_at() has come, the session has something to do."""
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


# Anything.


def test_misuse() -> None:
    """An unexpected answer is an error of the driver, which names both states."""
    with pytest.raises(StateError, match="expected a request under way, met none while its sequence is open"):
        Driven().answer()


@pytest.mark.parametrize("seed", range(60))
def test_any_order(seed: int) -> None:
    """Events in any order give one START, one END, and the audio in order and only once."""
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
            for _, request in session.requests(driven.now):
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
            driven.fail("bad_request", lost=chance.random() < 0.5)
            under_way = False
        else:
            driven.later(chance.random())
        messages += told(session)
    if session.state is State.STREAMING:
        driven.text(STOP)
    while not session.over:
        if not under_way:
            [(_, request)] = session.requests(driven.now)
            requests.append(request)
        driven.answer(*([{"type": "flushed", "audio_ms": 0}] if requests[-1].flush else []))
        under_way = False
    messages += told(session)

    assert [request.start for request in requests] == [True] + [False] * (len(requests) - 1)
    assert not any(request.end for request in requests[:-1])
    got = b"".join(request.pcm for request in requests)
    whole = sent[: len(sent) - len(sent) % 2]
    assert whole.startswith(got)
    assert [message["n"] for message in messages] == list(range(1, len(messages) + 1))
    assert session.ended_by
    if session.ended_by in ("done", "odd_bytes"):
        assert got == whole
        assert (session.ended_by == "odd_bytes") == bool(len(sent) % 2)
        assert sum(message["type"] == "flushed" for message in messages) == flushes
        assert requests[-1].end
