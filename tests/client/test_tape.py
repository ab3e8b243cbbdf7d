"""What a client keeps for a service that may ask for it again."""

from __future__ import annotations

from streamer.client.tape import Flush, Stop, Tape
from streamer.wire.options import Start


def played(tape: Tape) -> list[object]:
    """All that is to be sent."""
    found: list[object] = []
    while (entry := tape.next()) is not None:
        found.append(entry)
        tape.sent()
    return found


def test_it_is_played_again_from_a_sample() -> None:
    """Sound goes on within a piece; flushes that arrived are left out, the end never is."""
    tape = Tape(Start())
    tape.add(b"aabb")
    tape.flush()
    tape.flush()
    tape.add(b"ccdd")
    tape.stop()
    assert played(tape) == [b"aabb", Flush(0), Flush(1), b"ccdd", Stop()]
    assert tape.rewind(1, 0)
    assert played(tape) == [b"bb", Flush(0), Flush(1), b"ccdd", Stop()]
    assert tape.rewind(2, 1)
    assert played(tape) == [Flush(1), b"ccdd", Stop()]
    assert tape.rewind(3, 2)
    assert played(tape) == [b"dd", Stop()]
    assert tape.rewind(4, 2)
    assert played(tape) == [Stop()]
    assert not tape.rewind(1, 2)
    assert not tape.rewind(5, 2)


def test_what_was_heard_is_forgotten() -> None:
    """But for a margin, as times are rounded; and nothing that was not sent."""
    tape = Tape(Start())
    for _ in range(10):
        tape.add(bytes(3200))
    for _ in range(5):
        tape.sent()
    tape.heard(300)
    assert not tape.rewind(3199, 0)
    assert tape.rewind(3200, 0)
    assert len(b"".join(piece for piece in played(tape) if isinstance(piece, bytes))) == 32_000 - 6400
    tape.heard(5000)
    assert tape.next() is None


def test_a_service_that_tells_nothing() -> None:
    """What would be too much is not kept: such a session cannot be resumed."""
    tape = Tape(Start())
    for _ in range(20):
        tape.add(bytes(1024 * 1024))
        tape.sent()
    assert not tape.whole
    assert not tape.rewind(0, 0)
