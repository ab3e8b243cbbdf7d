"""When words were shown, stable, changed and final, and the wait for a final, from hand-made events."""

from __future__ import annotations

from typing import Any

from streamer.commands.accuracy.results import (
    EndDelay,
    FinalRequest,
    PartialCounts,
    TimedEvent,
    TimedWord,
    TimePoint,
    WordSpan,
    count_partials,
    summarise_end_delays,
    timed_finals,
)
from tests.commands.accuracy.session_events import arrived, final, partial


def words(*events: dict[str, Any]) -> list[TimedWord]:
    """The words of all finals."""
    return [word for found in timed_finals(arrived(*events)) for word in found.words]


def moments(*events: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Each word with the audio times when it was shown and final."""
    return [(word.word, word.shown.audio_ms, word.final.audio_ms) for word in words(*events)]


def test_a_word_is_shown_when_it_stays() -> None:
    """A word that was removed and came back counts from its return; one that moved, from its move."""
    events = [
        {"type": "ready"},
        partial("the", 320),
        partial("the cat", 640),
        partial("the car", 960),
        partial("the cat sat", 1280),
        partial("the cat", 1600),
        final("the cat sat", audio_ms=1920),
        {"type": "done", "audio_ms": 2000},
    ]
    assert moments(*events) == [("the", 320, 1920), ("cat", 1280, 1920), ("sat", 1920, 1920)]


def test_a_word_is_stable_when_all_of_it_is_called_so() -> None:
    """A word is stable from the first event whose stable text includes all of it, but not before it is shown."""
    events = [
        partial("the cat", 320, stable=0),
        partial("the cats sat", 640, stable=len("the cat")),
        partial("the cats sat", 960, stable=len("the cats")),
        partial("a cats sat", 1280, stable=len("a cats ")),
        final("a cats sat", audio_ms=1600),
    ]
    assert [(word.word, word.stable.audio_ms) for word in words(*events)] == [
        ("a", 1280),
        ("cats", 960),
        ("sat", 1600),
    ]


def test_segments_are_apart() -> None:
    """The same words in an earlier segment do not count for a later one; finals are joined in order."""
    events = [
        partial("yes no", 320),
        final("yes", audio_ms=640),
        partial("yes", 1280, 1),
        final("yes", 1, audio_ms=1600),
    ]
    assert moments(*events) == [("yes", 320, 640), ("yes", 1280, 1600)]


def test_an_event_without_the_clock_has_that_of_the_next_one() -> None:
    """An event without an audio time has that of the next one; the last events have the last one."""
    events = [
        final("one"),
        {"type": "heard", "audio_ms": 700},
        final("two", 1),
        {"type": "speech", "state": "end", "at_ms": 5},
    ]
    assert moments(*events) == [("one", 700, 700), ("two", 700, 700)]
    assert moments(final("one")) == [("one", 0, 0)]


def test_the_walls_clock_is_beside() -> None:
    """Each time also says when the event arrived."""
    [found] = timed_finals(
        [TimedEvent(5.0, partial("Yes", 320, stable=3)), TimedEvent(9.5, final("Yes", audio_ms=640))]
    )
    [word] = found.words
    assert word == TimedWord("yes", TimePoint(320, 5.0), TimePoint(320, 5.0), TimePoint(640, 9.5), written="Yes")


def test_words_have_their_span_and_confidence() -> None:
    """Words have the span and confidence of the final; one that normalises to two words has no span."""
    told = [
        {"word": "Well-known", "start_ms": 100, "end_ms": 700, "confidence": 0.5},
        {"word": "man", "start_ms": 700, "end_ms": 900, "confidence": 0.25},
    ]
    [found] = timed_finals(arrived(final("Well-known man", confidence=0.4, words=told)))
    assert found.confidence == 0.4
    assert [(word.word, word.span, word.confidence) for word in found.words] == [
        ("well", None, 0.5),
        ("known", None, 0.5),
        ("man", WordSpan(700, 900), 0.25),
    ]


def test_the_written_form_is_judged_as_it_was_spoken() -> None:
    """In the written form spoken words count; they are shown when their whole token is."""
    told = [
        {"word": "It", "spoken": "it", "start_ms": 0, "end_ms": 100, "confidence": 0.9},
        {"word": "5 PM", "spoken": "five p m", "start_ms": 100, "end_ms": 900, "confidence": 0.8},
    ]
    events = [
        partial("It 5", 320),
        partial("It 5 PM", 640),
        final("It 5 PM", words=told, spoken="it five p m", audio_ms=960),
    ]
    found = words(*events)
    assert [(word.word, word.shown.audio_ms) for word in found] == [("it", 320), ("five", 640), ("p", 640), ("m", 640)]
    assert [word.span for word in found] == [WordSpan(0, 100), None, None, None]
    del events[-1]["words"]
    assert [word.shown.audio_ms for word in words(*events)] == [640] * 4


def test_a_word_that_leaves_its_place_was_changed() -> None:
    """A word that another word or nothing replaces is changed; if it comes back, it is shown again."""
    events = [
        partial("the", 320),
        partial("the cat", 640),
        partial("the car sat", 960),
        partial("the cat sat", 1280),
        partial("the cat", 1600),
        final("the cat ran"),
    ]
    # the, cat, car, sat, cat; of them cat, car and sat did not stay. What only the final has was not shown.
    assert count_partials(arrived(*events)) == PartialCounts(shown=5, changed=3)


def test_what_never_becomes_final_was_changed() -> None:
    """Segments are independent; without a final all words of a segment count as changed."""
    events = [partial("yes", 320), final("yes"), partial("oh no", 640, 1)]
    assert count_partials(arrived(*events)) == PartialCounts(shown=3, changed=2)
    assert count_partials(arrived(final("yes"))) == PartialCounts()


def test_stable_words_must_stay() -> None:
    """Stable words that change or become unstable are counted; unstable words may change."""
    honest = [partial("the cat", 320, stable=3), partial("the car", 640, stable=3), final("the cart")]
    assert count_partials(arrived(*honest)).broken == 0
    changed = [partial("the cat", 320, stable=7), partial("the car", 640, stable=3), final("a car")]
    assert count_partials(arrived(*changed)).broken == 2
    shrunk = [partial("the cat", 320, stable=7), partial("the cat", 640, stable=3), final("the cat")]
    assert count_partials(arrived(*shrunk)).broken == 1


def test_counts_can_be_added() -> None:
    """Counts are added field by field."""
    assert PartialCounts(1, 2, 3) + PartialCounts(10, 20, 30) == PartialCounts(11, 22, 33)


def test_each_kind_has_its_own_line() -> None:
    """Flush and stop are summarised apart, and sessions that did not wait for a final do not count."""
    found = summarise_end_delays(
        [
            EndDelay(FinalRequest.FLUSH, 100.0),
            None,
            EndDelay(FinalRequest.STOP, 30.0),
            EndDelay(FinalRequest.FLUSH, 200.0),
        ]
    )
    assert (found["flush"].number, found["flush"].median_ms, found["flush"].longest_ms) == (2, 150.0, 200.0)
    assert 150 < found["flush"].p95_ms < 200
    assert (found["stop"].number, found["stop"].median_ms, found["stop"].p95_ms) == (1, 30.0, 30.0)


def test_nothing_to_summarise() -> None:
    """Without any delay there is no line."""
    assert summarise_end_delays([None]) == {}
