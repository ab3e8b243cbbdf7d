"""What the client keeps of the audio that it sent: pure, with random orders of events."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import Any

import pytest

from streamer.client.kept_audio import Entry, KeptAudio
from streamer.wire.native import Flush, Stop
from streamer.wire.options import Endpoint, Start

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
