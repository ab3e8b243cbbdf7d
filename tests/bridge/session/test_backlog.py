"""Dividing a client's audio into steps of the model."""

from __future__ import annotations

import random

import pytest

from streamer.bridge.session.backlog import (
    BYTES_PER_S,
    FEW_FLUSHES,
    HIGH_MARK,
    LOW_MARK,
    MOST_FLUSHES,
    PORTION,
    Backlog,
    Grid,
    Place,
    Portion,
)

STEP = 320 * BYTES_PER_S // 1000


def drain(backlog: Backlog, *, last: bool = False) -> list[Portion]:
    """Take everything that can be taken now."""
    portions = []
    while (portion := backlog.take(Grid(320), last=last)) is not None:
        portions.append(portion)
        if portion.last:
            break
    return portions


def test_less_than_a_step_waits() -> None:
    """Nothing is returned before there is a whole step."""
    backlog = Backlog()
    backlog.add(bytes(STEP - 2))
    assert backlog.take(Grid(320), last=False) is None
    backlog.add(bytes(2))
    assert backlog.take(Grid(320), last=False) == Portion(bytes(STEP))
    assert len(backlog) == 0


def test_a_portion_may_end_at_a_place_within_a_step() -> None:
    """A portion may end at a place that the audio reaches; a whole step goes as a whole; a passed place is ignored."""
    backlog, place = Backlog(), Place(STEP // 4)
    backlog.add(bytes(STEP // 4 - 2))
    assert backlog.take(Grid(320), place, last=False) is None
    backlog.add(bytes(100))
    assert backlog.take(Grid(320), place, last=False) == Portion(bytes(STEP // 4))
    backlog.add(bytes(STEP))
    assert backlog.take(Grid(320), place, last=False) == Portion(bytes(STEP))
    assert backlog.take(Grid(320), Place(0), Place(-2), last=False) is None


@pytest.mark.parametrize("step_ms", [160, 320, 640])
def test_steps_travel_together(step_ms: int) -> None:
    """When much audio waits, a portion has several whole steps, up to its bound."""
    backlog = Backlog()
    backlog.add(bytes(3 * PORTION + 1000))
    sizes = [len(portion.pcm) for portion in iter(lambda: backlog.take(Grid(step_ms), last=False), None)]
    assert sizes == [PORTION] * 3
    assert len(backlog) == 1000


@pytest.mark.parametrize("seed", range(5))
def test_any_pieces(seed: int) -> None:
    """Pieces of any size come out as the same audio, in whole steps, with the rest at the end."""
    chance = random.Random(seed)
    audio = chance.randbytes(10 * STEP + 2 * chance.randrange(STEP))
    backlog, portions, place = Backlog(), [], 0
    while place < len(audio):
        size = chance.choice([2, 6, 640, 5000, 3 * STEP])
        backlog.add(audio[place : place + size])
        place += size
        portions += drain(backlog)
    portions += drain(backlog, last=True)
    assert b"".join(portion.pcm for portion in portions) == audio
    assert all(len(portion.pcm) % STEP == 0 for portion in portions[:-1])
    assert [portion.last for portion in portions] == [False] * (len(portions) - 1) + [True]


def test_last_without_audio() -> None:
    """The last portion comes even if no audio is left."""
    assert Backlog().take(Grid(320), last=True) == Portion(b"", last=True)


def test_flush_keeps_its_place() -> None:
    """A flush comes with the audio before it, however much waits before and after it."""
    backlog = Backlog()
    backlog.add(b"a" * (PORTION + 100))
    backlog.mark_flush()
    backlog.add(b"b" * STEP)
    portions = drain(backlog)
    assert [(set(portion.pcm), portion.flush) for portion in portions] == [
        ({ord("a")}, False),
        ({ord("a")}, True),
        ({ord("b")}, False),
    ]
    assert sum(len(portion.pcm) for portion in portions[:2]) == PORTION + 100


def test_every_flush_counts() -> None:
    """Two flushes at the same place count as two."""
    backlog = Backlog()
    backlog.mark_flush()
    backlog.mark_flush()
    assert drain(backlog) == [Portion(b"", flush=True)] * 2


def test_marks() -> None:
    """The backlog is full from the high mark on, until it is below the low mark."""
    backlog = Backlog()
    backlog.add(bytes(HIGH_MARK))
    assert not backlog.full
    backlog.add(bytes(2))
    assert backlog.full
    while len(backlog) > LOW_MARK:
        assert backlog.full
        assert backlog.take(Grid(320), last=False) is not None
    assert not backlog.full


def test_flushes_are_bounded() -> None:
    """Flushes alone can fill it too, with their own marks."""
    backlog = Backlog()
    for _ in range(MOST_FLUSHES):
        assert not backlog.full
        backlog.mark_flush()
    for _ in range(MOST_FLUSHES - FEW_FLUSHES):
        assert backlog.full
        backlog.take(Grid(320), last=False)
    assert backlog.full
    backlog.take(Grid(320), last=False)
    assert not backlog.full


def test_clear() -> None:
    """A cleared backlog holds nothing, and takes more audio."""
    backlog = Backlog()
    backlog.add(bytes(2 * HIGH_MARK))
    backlog.mark_flush()
    backlog.clear()
    assert not backlog.full
    assert drain(backlog, last=True) == [Portion(b"", last=True)]
