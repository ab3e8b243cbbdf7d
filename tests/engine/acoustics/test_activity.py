"""The tracker turns probabilities into starts and ends of speech."""

from __future__ import annotations

import random

import pytest

from streamer.engine.acoustics.activity import ActivityRule, ActivityTracker, SpeechBoundary, SpeechChange, SpeechWatch

RULE = ActivityRule(
    open_above=0.6, close_below=0.4, open_ms=160, close_ms=480, heard_above=0.2, heard_ms=80, late_ms=40
)


def test_speech_starts_and_ends_with_hysteresis() -> None:
    """Speech starts where the rise began, survives doubtful frames, and ends at its last active frame."""
    track = ActivityTracker(RULE)
    assert track.read([0.1] * 10 + [0.5] + [0.7] * 3) == []
    assert track.read([0.7]) == [SpeechBoundary(True, 9)]
    assert track.speaking
    assert track.read([0.5] * 20 + [0.1] * 11) == []
    assert track.read([0.1]) == [SpeechBoundary(False, 35)]
    assert (track.speaking, track.quiet) == (False, 12)


def test_a_click_opens_nothing() -> None:
    """Short rises are not speech, however high; a long faint one lets words through but starts no speech."""
    track = ActivityTracker(RULE)
    assert track.read(([0.9] * 1 + [0.0] * 3) * 20) == []
    assert not track.opened
    assert track.read([0.3] * 2) == []
    assert track.opened
    assert not track.speaking


def test_chunks_do_not_matter() -> None:
    """Probabilities in any chunks give the same starts and ends."""
    dice = random.Random(3)
    found = [dice.choice([0.05, 0.3, 0.5, 0.9]) for _ in range(30) for _ in range(dice.randint(1, 9))]
    found = [value for value in found for _ in range(4)]
    whole, pieces, changes = ActivityTracker(RULE), ActivityTracker(RULE), []
    place = 0
    while place < len(found):
        size = dice.randint(0, 20)
        changes += pieces.read(found[place : place + size])
        place += size
    assert changes == whole.read(found)
    assert [change.speaking for change in changes] == [True, False] * (len(changes) // 2) + [True] * (len(changes) % 2)
    assert pieces.quiet == whole.quiet


def test_speech_that_goes_on_over_a_cut() -> None:
    """A tracker that begins during speech does not start it again, and ends it once."""
    track = ActivityTracker(RULE, speaking=True)
    assert track.opened
    assert track.read([0.9] * 8) == []
    reading = track.reading([0.1] * 5)
    assert (reading.boundaries, reading.speaking, reading.last_active) == ((), True, 8)
    assert track.reading([0.1] * 7).boundaries == (SpeechBoundary(False, 8),)


def test_thresholds_that_cross_are_refused() -> None:
    """A close_below above open_above is refused."""
    with pytest.raises(ValueError, match="close_below"):
        ActivityRule(open_above=0.3, close_below=0.5)


FRAME = 640


def watch(*, speaking: bool = False) -> SpeechWatch:
    return SpeechWatch(FRAME, speaking=speaking, tracker=ActivityTracker(ActivityRule(), speaking=speaking))


def test_a_detector_starts_and_ends_speech() -> None:
    """The start is where the rise began, and the end behind the last active frame."""
    watched = watch()
    assert watched.hear([0.0] * 5 + [0.5, 0.99]) == []
    assert watched.hear([0.99]) == [SpeechChange(True, 4 * FRAME)]
    assert watched.speaking
    assert watched.hear([0.1] * 12) == [SpeechChange(False, 8 * FRAME)]


def test_words_that_the_detector_missed_are_speech() -> None:
    """Words that the detector missed start speech where they begin, and the end of the segment ends it, each time."""
    watched = watch()
    watched.hear([0.1] * 50)
    assert watched.find_words(20 * FRAME) == [SpeechChange(True, 20 * FRAME)]
    assert watched.find_words(20 * FRAME) == []
    assert watched.pause(40 * FRAME, 10) == [SpeechChange(False, 40 * FRAME)]
    assert watched.find_words(20 * FRAME) == []  # words of the same segment
    watched.begin_segment()
    assert watched.find_words(45 * FRAME) == [SpeechChange(True, 45 * FRAME)]


def test_speech_ends_with_a_segment_if_it_is_quiet() -> None:
    """A segment with no recent activity ends speech; activity without words goes on."""
    watched = watch()
    watched.hear([0.99] * 10 + [0.1] * 4)
    assert watched.pause(9 * FRAME, 5) == []
    assert watched.pause(9 * FRAME, 4) == [SpeechChange(False, 10 * FRAME)]
    assert watched.pause(9 * FRAME, 0) == []
    assert watched.hear([0.99] * 2) == [SpeechChange(True, 14 * FRAME)]


def test_speech_that_a_flush_ends_goes_on_behind_it() -> None:
    """Probabilities before a flush do not count for the next start, and times do not go back."""
    watched = watch()
    watched.hear([0.99] * 10)
    assert watched.pause(10 * FRAME, 0) == [SpeechChange(False, 10 * FRAME)]
    assert watched.hear([0.99]) == []
    assert watched.hear([0.99]) == [SpeechChange(True, 10 * FRAME)]


def test_speech_that_was_going_on_is_not_told_again() -> None:
    """A stream that begins in the middle of speech says when it ends."""
    watched = watch(speaking=True)
    assert watched.find_words(0) == []
    assert watched.hear([0.99] * 3 + [0.0] * 12) == [SpeechChange(False, 3 * FRAME)]
