"""Starts and ends of speech: from a detector, from words that it missed, and at the end of a segment."""

from __future__ import annotations

from streamer.engine.models.activity_tracker import ActivityRule, ActivityTracker
from streamer.engine.models.speech_watch import SpeechChange, SpeechWatch

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
