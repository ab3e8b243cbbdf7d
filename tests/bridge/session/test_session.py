"""The session as a state machine: its purpose, the states of its client, and mistakes of clients."""

from __future__ import annotations

import pytest

from streamer.bridge.session.session import ClientState, Presence
from streamer.bridge.session.stream import Request
from streamer.bridge.states import StateError
from tests.bridge.session.driven_session import FLUSH, KEEPALIVE, LIMITS, START, STEP, STOP, Driven, final, partial

# The purpose of a session.


def test_whole_session() -> None:
    """Audio becomes requests, events become numbered messages, and stop brings the rest and close 1000."""
    driven = Driven(start=None)
    driven.text('{"type":"start","step_ms":160,"words":false}')
    assert driven.session.start.model_options()["step_ms"] == 160
    driven.session.serve("streaming_asr")
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
        "model": "default",
        "triton_model": "streaming_asr",
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
    """The client gets `ready` once the model holds a slot for it; earlier audio is kept."""
    driven = Driven(start=None)
    driven.text(START)
    driven.audio(bytes(STEP))
    assert driven.request() == Request(start=True)
    assert driven.said() == []
    driven.answer()
    assert driven.said() == ["ready"]
    assert driven.request() == Request(bytes(STEP))


def test_one_request_at_a_time() -> None:
    """While an answer is awaited, there is no other request."""
    driven = Driven()
    driven.audio(bytes(2 * STEP))
    assert driven.request() is not None
    driven.audio(bytes(STEP))
    assert driven.request() is None


def test_behind_schedule() -> None:
    """Audio that gathered while the model computed is sent in one request."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.request()
    driven.audio(bytes(3 * STEP + 10))
    driven.answer()
    assert driven.request() == Request(bytes(3 * STEP))


def test_steps_are_counted_from_the_cut() -> None:
    """A portion ends where a step of the model ends, so that none of its audio waits there for the next portion."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.exchange({"type": "cut", "sample": (STEP - 3000) // 2})
    driven.audio(bytes(2 * STEP))
    assert driven.exchange() == Request(bytes(2 * STEP - 3000))
    assert driven.request() is None
    driven.audio(bytes(STEP - 3000))
    assert driven.exchange() == Request(bytes(STEP))


def test_pieces_while_nobody_speaks() -> None:
    """A model that detects speech in pieces gets each of them at once, and whole steps while somebody speaks."""
    driven = Driven(None)
    driven.text(START)
    driven.request()
    driven.session.serve("streaming_asr")
    driven.answer({"type": "opened", "model": "m", "instance": "i", "piece_ms": 80})
    piece = STEP // 4
    driven.audio(bytes(piece + 10))
    assert driven.exchange() == Request(bytes(piece))
    driven.audio(bytes(2 * piece))
    assert driven.exchange({"type": "speech", "state": "start", "at_ms": 90}) == Request(bytes(2 * piece))
    driven.audio(bytes(piece - 20))
    assert driven.request() is None
    driven.audio(bytes(10))
    assert driven.exchange({"type": "speech", "state": "end", "at_ms": 300}) == Request(bytes(piece))
    driven.audio(bytes(piece))
    assert driven.exchange() == Request(bytes(piece))


def test_steps_of_the_model() -> None:
    """A model that takes another step than the wanted one gets whole steps of its own, counted from the last cut."""
    driven = Driven(None)
    driven.text(START)
    driven.request()
    driven.session.serve("streaming_asr")
    driven.answer({"type": "opened", "model": "m", "instance": "i", "step_ms": 336})
    step = 336 * 32
    driven.audio(bytes(STEP))
    assert driven.request() is None
    driven.audio(bytes(step - STEP))
    assert driven.exchange({"type": "cut", "sample": 1600}) == Request(bytes(step))
    driven.audio(bytes(3200))
    assert driven.exchange() == Request(bytes(3200))  # with it, the new segment has a whole step


@pytest.mark.parametrize(("step_ms", "portion_ms"), [(320, 320), (160, 320), (400, 400)])
def test_a_model_that_reads_ahead(step_ms: int, portion_ms: int) -> None:
    """Its audio ends where a step and the audio ahead of it end, so nothing of it waits for the next portion."""
    driven = Driven(None)
    driven.text(START)
    driven.request()
    driven.session.serve("streaming_asr")
    driven.answer({"type": "opened", "model": "m", "instance": "i", "step_ms": step_ms, "ahead_ms": 145})
    portion, ahead = portion_ms * 32, 145 * 32
    driven.audio(bytes(portion + ahead - 32))
    assert driven.request() is None
    driven.audio(bytes(portion))
    assert driven.exchange() == Request(bytes(portion + ahead))
    driven.audio(bytes(32))
    assert driven.exchange({"type": "cut", "sample": 16 * (portion_ms + 45)}) == Request(bytes(portion))
    # After the cut, what was sent already counts.
    begun = portion + ahead + portion - 32 * (portion_ms + 45)
    driven.audio(bytes(4 * portion))
    assert driven.exchange() == Request(bytes((portion + ahead - begun) % portion + portion * 3))


def test_flush() -> None:
    """A flush takes the rest of the audio with it, and its answer goes to the client."""
    driven = Driven()
    driven.audio(bytes(100))
    driven.text(FLUSH)
    cut = {"type": "cut", "sample": 50}
    assert driven.exchange(final("yes"), cut, {"type": "flushed", "audio_ms": 3}) == Request(bytes(100), flush=True)
    assert driven.said() == ["final", "flushed"]
    driven.audio(bytes(STEP))
    assert driven.request() == Request(bytes(STEP))


def test_flush_and_stop_at_once() -> None:
    """Flush and stop behind waiting audio are answered in order."""
    driven = Driven()
    driven.audio(bytes(STEP + 2))
    driven.text(FLUSH)
    driven.text(STOP)
    assert driven.exchange({"type": "flushed", "audio_ms": 320}) == Request(bytes(STEP + 2), flush=True)
    assert driven.exchange() == Request(end=True)
    assert driven.said() == ["flushed", "done"]


def test_flushed_is_an_answer() -> None:
    """A client that did not flush does not get the `flushed` that the model sends at the end."""
    driven = Driven()
    driven.text(STOP)
    driven.exchange({"type": "flushed", "audio_ms": 0})
    assert driven.said() == ["done"]


def test_stop_without_audio() -> None:
    """A session without audio ends well."""
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
    """Events that are only for the bridge do not reach the client."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.exchange({"type": "cut", "sample": 5120}, {"type": "speech", "state": "start", "at_ms": 40})
    assert driven.said() == ["speech"]


def test_heard_is_rare() -> None:
    """`heard` comes at most twice a second, only if no other message came, and only with news."""
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
    """A partial acknowledges audio, so `heard` does not follow it."""
    driven = Driven()
    driven.now += 1
    driven.audio(bytes(STEP))
    driven.exchange(partial("one", 320))
    assert driven.said() == ["partial"]
    driven.now += 5
    driven.exchange()
    assert driven.said() == []


def test_silent_sequence_is_kept_alive() -> None:
    """An open but silent session sends empty requests, so that Triton does not forget it."""
    driven = Driven()
    assert driven.session.due_at() == driven.now + LIMITS.refresh_s
    driven.now += LIMITS.refresh_s
    assert driven.exchange() == Request()
    assert driven.request() is None


def test_nothing_is_due_while_an_answer_is_owed() -> None:
    """While the model computes, no empty request is due, however long that takes."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.request()
    due = driven.session.due_at()
    assert due is not None
    assert due > driven.now + LIMITS.refresh_s


# Mistakes of clients.


@pytest.mark.parametrize("text", [FLUSH, KEEPALIVE, STOP])
def test_message_before_start(text: str) -> None:
    """Only start opens a session; the error names the expected and the present state."""
    driven = Driven(start=None)
    driven.text(text)
    driven.assert_refused("unexpected", 4000, "while the session is streaming, but it is opening")
    assert driven.session.over


def test_audio_before_start() -> None:
    """Audio before start is refused, with advice."""
    driven = Driven(start=None)
    driven.audio(bytes(100))
    driven.assert_refused("unexpected", 4000, 'send {"type":"start"} first')
    assert driven.session.over


def test_second_start() -> None:
    """A second start ends the session and its sequence."""
    driven = Driven()
    driven.text(START)
    driven.assert_refused("unexpected", 4000, "while the session is opening, but it is streaming")
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
    """An invalid message closes the session, and the sequence ends without the waiting audio."""
    driven = Driven()
    driven.audio(bytes(2 * STEP))
    driven.text(text)
    driven.assert_refused(code, close_code)
    driven.assert_ends()


def test_unsupported_audio() -> None:
    """Unsupported audio is refused before a slot is requested."""
    driven = Driven(start=None)
    driven.text('{"type":"start","sample_rate":7000}')
    driven.assert_refused("unsupported_audio", 4001, "from 8000 to 192000")
    assert driven.request() is None
    assert driven.session.over


def test_bad_message_while_the_model_computes() -> None:
    """END waits for the awaited answer, and that answer no longer reaches the client."""
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
    """What comes after stop is ignored with one error, and the finals still come."""
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


def test_who_cannot_be_understood() -> None:
    """An invalid frame before stop ends the session, for its driver to explain; after stop it gives one error."""
    driven = Driven()
    assert not driven.session.disregard()
    assert driven.said() == []
    driven.text(STOP)
    for _ in range(2):
        assert driven.session.disregard()
    driven.exchange(final("word"))
    assert driven.session.disregard()
    assert driven.said() == ["error", "final", "done"]


def test_half_sample_between_frames() -> None:
    """Frames with an odd number of bytes are joined; only the total matters."""
    driven = Driven()
    driven.audio(b"abc")
    driven.audio(b"d")
    driven.text(STOP)
    assert driven.exchange() == Request(b"abcd", end=True)
    assert driven.said() == ["done"]


def test_half_sample_at_the_end() -> None:
    """After an odd total the words still come, then the error and 4000 instead of done."""
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


def test_parked_and_back() -> None:
    """A session waits for a client that lost its connection, until a limit or until the client returns."""
    client = Presence()
    assert (client.parked, client.due_at) == (False, None)
    client.park(130.0)
    assert (client.parked, client.due_at) == (True, 130.0)
    client.come_back()
    assert (client.parked, client.due_at) == (False, None)
    client.come_back()  # over another connection, while the first one lives
    assert client.state is ClientState.CONNECTED


def test_dismissed() -> None:
    """During shutdown a client may return over another connection, but the session does not wait for it."""
    client = Presence()
    client.dismiss()
    client.dismiss()
    client.come_back()
    assert client.state is ClientState.DISMISSED
    with pytest.raises(StateError, match="client to become parked: expected connected, met dismissed"):
        client.park(130.0)


def test_left() -> None:
    """A client that has left cannot return."""
    client = Presence()
    client.leave()
    client.leave()
    client.dismiss()
    assert (client.gone, client.parked) == (True, False)
    with pytest.raises(StateError, match="client: expected connected or dismissed, met left"):
        client.come_back()


def test_a_client_that_returns_too_late() -> None:
    """A session that ended while its client was on the way from another process does not go on."""
    driven = Driven()
    driven.session.park(driven.now)
    assert driven.session.can_resume(1)
    driven.session.vanish()
    assert not driven.session.resume(1, driven.now)
    assert driven.session.gone


def test_what_is_missing_for_the_next_request() -> None:
    """So much of the client's audio is missing for a step; nothing before a flush, or while there is no sequence."""
    driven = Driven('{"type":"start","encoding":"mulaw","sample_rate":8000}')
    assert driven.session.missing == 2560
    driven.audio(bytes(1000))
    assert driven.request() is None
    assert 1560 <= driven.session.missing <= 1560 + 240  # the resampler holds back some samples
    driven.text(FLUSH)
    assert driven.session.missing == 0
    driven.exchange()
    assert driven.session.missing > 0
    assert Driven(None).session.missing == 0
