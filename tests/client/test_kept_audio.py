"""What a client keeps for a service that may ask for it again."""

from __future__ import annotations

from streamer.client.kept_audio import Flush, KeptAudio, Stop
from streamer.wire.options import Start


def played(kept: KeptAudio) -> list[object]:
    """All that is to be sent."""
    found: list[object] = []
    while (entry := kept.next()) is not None:
        found.append(entry)
        kept.sent()
    return found


def test_it_is_played_again_from_a_sample() -> None:
    """Sound goes on within a piece; flushes that arrived are left out, the end never is."""
    kept = KeptAudio(Start())
    kept.add(b"aabb")
    kept.flush()
    kept.flush()
    kept.add(b"ccdd")
    kept.stop()
    assert played(kept) == [b"aabb", Flush(0), Flush(1), b"ccdd", Stop()]
    assert kept.rewind(1, 0)
    assert played(kept) == [b"bb", Flush(0), Flush(1), b"ccdd", Stop()]
    assert kept.rewind(2, 1)
    assert played(kept) == [Flush(1), b"ccdd", Stop()]
    assert kept.rewind(3, 2)
    assert played(kept) == [b"dd", Stop()]
    assert kept.rewind(4, 2)
    assert played(kept) == [Stop()]
    assert not kept.rewind(1, 2)
    assert not kept.rewind(5, 2)


def test_what_was_heard_is_forgotten() -> None:
    """But for a margin, as times are rounded; and nothing that was not sent."""
    kept = KeptAudio(Start())
    for _ in range(10):
        kept.add(bytes(3200))
    for _ in range(5):
        kept.sent()
    kept.heard(300)
    assert not kept.rewind(3199, 0)
    assert kept.rewind(3200, 0)
    assert len(b"".join(piece for piece in played(kept) if isinstance(piece, bytes))) == 32_000 - 6400
    kept.heard(5000)
    assert kept.next() is None


def test_a_service_that_tells_nothing() -> None:
    """What would be too much is not kept: such a session cannot be resumed."""
    kept = KeptAudio(Start())
    for _ in range(20):
        kept.add(bytes(1024 * 1024))
        kept.sent()
    assert not kept.whole
    assert not kept.rewind(0, 0)
