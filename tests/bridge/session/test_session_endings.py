"""How a session ends: for a client that is gone or does not read, and where the model or the service fails."""

from __future__ import annotations

import pytest

from streamer.base.codes import ErrorCode
from streamer.bridge.session.backlog import HIGH_MARK
from streamer.bridge.session.stream import Request, SequenceState
from tests.bridge.session.driven_session import START, STEP, STOP, Driven, final

# The client is gone, or does not read.


def test_client_vanishes() -> None:
    """A client that is gone gets nothing; its audio is dropped, and its sequence is ended."""
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
    """A finishing session is ended too if its client is gone, without computing the rest."""
    driven = Driven()
    driven.audio(bytes(20 * STEP))
    driven.text(STOP)
    driven.exchange()
    driven.session.vanish()
    driven.assert_ends()


def test_client_vanishes_while_the_sequence_opens() -> None:
    """A START that is under way is followed by END."""
    driven = Driven(start=None)
    driven.text(START)
    assert driven.request() == Request(start=True)
    driven.session.vanish()
    assert driven.request() is None
    driven.answer()
    driven.assert_ends()


def test_a_fault_of_ours() -> None:
    """After a fault of the service the client is told how much audio is missing, as after any other failure."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.session.break_down()
    (error,) = driven.messages()
    assert (error["code"], error["unrecognised_ms"]) == ("failed", 320)
    assert driven.session.close is not None
    assert driven.session.close.code == 1011
    assert driven.session.ended_by == "internal"


def test_client_does_not_read() -> None:
    """A client that does not read is closed with a reason and no further message, whatever waits for it."""
    driven = Driven()
    driven.text('{"type":"nonsense"}')
    driven.session.stall(30)
    assert driven.messages() == []
    assert driven.session.close is not None
    assert (driven.session.close.code, driven.session.ended_by) == (4008, "not_read")
    assert "30 s" in driven.session.close.reason
    driven.assert_ends()


def test_client_does_not_read_the_end() -> None:
    """A session that is over is not closed as if its last messages had arrived."""
    driven = Driven()
    driven.text(STOP)
    driven.exchange()
    assert driven.said() == ["done"]
    driven.session.stall(30)
    assert driven.session.close is not None
    assert (driven.session.close.code, driven.session.ended_by) == (4008, "not_read")


def test_closed_session_is_read_on() -> None:
    """A client that was held back is read again when its session closes, because its close frame must come."""
    driven = Driven()
    driven.audio(bytes(2 * HIGH_MARK))
    assert driven.session.full
    driven.session.vanish()
    assert not driven.session.full


# The model fails, the service ends.


def test_model_fails() -> None:
    """A failure that another sequence would meet too ends the session with 1011; the sequence is ended."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.exchange()
    driven.audio(bytes(STEP))
    driven.request()
    driven.fail("bad_request")
    driven.assert_refused("failed", 1011, "the last 640 ms of audio were not recognised")
    driven.assert_ends()


def test_model_is_lost() -> None:
    """If the connection to a sequence is lost, there is nothing to end."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.request()
    driven.fail("bad_request", lost=True)
    driven.assert_refused("failed", 1011)
    assert driven.request() is None
    assert driven.session.streams[0].sequence is SequenceState.ENDED
    assert driven.session.over


def test_model_fails_for_nobody() -> None:
    """A failure after the client has gone sends no message."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.request()
    driven.session.vanish()
    driven.fail()
    assert driven.messages() == []
    driven.assert_ends()


@pytest.mark.parametrize("code", ["full", "not_ready", "shutting_down"])
def test_no_room(code: str) -> None:
    """If there is no slot now, the refusal says when to try again; a slot that Triton may hold is given back."""
    driven = Driven(start=None)
    driven.text(START)
    driven.request()
    driven.fail(code)
    driven.assert_refused(code, 1013)
    assert driven.session.close is not None
    assert "5 s" in driven.session.close.reason
    driven.assert_ends()


def test_model_refuses_options() -> None:
    """Options that only the model can judge are refused like a bad message."""
    driven = Driven(start=None)
    driven.text(START)
    driven.request()
    driven.fail("bad_options")
    driven.assert_refused("bad_option", 4000, "it broke")


def test_drain() -> None:
    """At shutdown everything becomes final, then the client is told when to return."""
    driven = Driven()
    driven.audio(bytes(STEP + 100))
    driven.session.drain()
    assert driven.exchange(final("so far")) == Request(bytes(STEP + 100), end=True)
    last, error = driven.messages()
    assert (last["text"], last["abrupt"], error["code"], error["fatal"]) == ("so far", True, "shutting_down", True)
    assert driven.session.close is not None
    assert driven.session.close.code == 1013


def test_an_operator_ends_it() -> None:
    """Everything becomes final, then the client is told who ended the session, with a code of its own."""
    driven = Driven()
    driven.audio(bytes(STEP + 100))
    driven.session.expel()
    assert driven.exchange(final("so far")) == Request(bytes(STEP + 100), end=True)
    last, error = driven.messages()
    assert (last["text"], error["code"], error["fatal"]) == ("so far", "ended_by_operator", True)
    assert driven.session.close is not None
    assert (driven.session.close.code, driven.session.close.reason) == (1008, "ended by an operator")
    assert (driven.session.ended_by, driven.session.resumable) == ("ended_by_operator", False)


def test_an_operator_does_not_wait_for_ever() -> None:
    """If the finals do not come, or the client is away, or has not begun, the session ends without them."""
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.session.expel()
    driven.session.expel(at_once=True)
    driven.assert_refused("ended_by_operator", 1008)
    driven = Driven(start=None)
    driven.session.expel()
    driven.assert_refused("ended_by_operator", 1008)
    driven = Driven()
    driven.audio(bytes(STEP))
    driven.exchange()
    driven.session.park(0.0)
    driven.session.expel()
    assert (driven.session.ended_by, driven.session.gone) == ("ended_by_operator", True)
    driven = Driven()
    driven.text(STOP)
    driven.session.expel()  # it ends by itself
    driven.exchange()
    assert driven.said() == ["done"]
    driven.session.expel(at_once=True)
    assert driven.session.ended_by == "done"


def test_drain_before_start() -> None:
    """At shutdown a connection without start is refused."""
    driven = Driven(start=None)
    driven.session.drain()
    driven.assert_refused("shutting_down", 1013)


def test_drain_after_stop() -> None:
    """A session that is already finishing ends as usual."""
    driven = Driven()
    driven.text(STOP)
    driven.session.drain()
    driven.exchange()
    assert driven.said() == ["done"]


def test_refuse() -> None:
    """A refusal is an error, and a close with the seconds to wait."""
    driven = Driven(start=None)
    driven.session.refuse(ErrorCode.FULL, "All 4 sessions are taken.")
    driven.assert_refused("full", 1013, "All 4")
    assert driven.session.close is not None
    assert driven.session.close.reason == "full: try again in 5 s"


def test_a_start_without_a_slot() -> None:
    """The client learns what it means for it and what to do, whatever the recogniser said."""
    driven = Driven(start=None)
    driven.text(START)
    driven.request()
    driven.session.serve("streaming_asr")
    driven.fail(ErrorCode.FULL)
    driven.assert_refused("full", 1013, "takes no session now (it broke); try again")
