"""How a session ends for a client that is gone or does not read, and after a fault of the service."""

from __future__ import annotations

from streamer.bridge.session.backlog import HIGH_MARK
from streamer.bridge.session.stream import Request
from tests.bridge.session.driven_session import START, STEP, STOP, Driven


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
