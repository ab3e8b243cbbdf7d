"""When words came, by hand-made events."""

from __future__ import annotations

from typing import Any

from streamer.evaluate.emission import Arrival, Delay, Moment, delays, emissions, summary


def arrived(*events: dict[str, Any]) -> list[Arrival]:
    """Events that come a millisecond after one another."""
    return [Arrival(float(place), event) for place, event in enumerate(events)]


def partial(text: str, audio_ms: int, segment: int = 0) -> dict[str, Any]:
    return {"type": "partial", "segment": segment, "text": text, "audio_ms": audio_ms}


def final(text: str, segment: int = 0, **more: int) -> dict[str, Any]:
    return {"type": "final", "segment": segment, "text": text, **more}


def moments(*events: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Each word with the audio's clock when it was shown and final."""
    return [(word.word, word.shown.audio_ms, word.final.audio_ms) for word in emissions(arrived(*events))]


def test_a_word_is_shown_when_it_stays() -> None:
    """A word that was taken back and came again counts from when it came again; one that moved, from its move."""
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
    """Such an event cannot have been made with more audio; the last ones have that of the last clock."""
    events = [
        final("one"),
        {"type": "heard", "audio_ms": 700},
        final("two", 1),
        {"type": "speech", "state": "end", "at_ms": 5},
    ]
    assert moments(*events) == [("one", 700, 700), ("two", 700, 700)]
    assert moments(final("one")) == [("one", 0, 0)]


def test_the_walls_clock_is_beside() -> None:
    """Each moment says when the event arrived here."""
    [word] = emissions([Arrival(5.0, partial("Yes", 320)), Arrival(9.5, final("Yes", audio_ms=640))])
    assert word == ("yes", Moment(320, 5.0), Moment(640, 9.5))


def test_delays_are_those_of_right_words() -> None:
    """Matched through the errors: a substituted word has none, an inserted one shifts nothing."""
    heard = emissions(
        arrived(partial("uh the bat", 500), partial("uh the bat sat", 900), final("uh the bat sat", audio_ms=1000))
    )
    found = delays(["the", "cat", "sat"], [200, 600, 1000], heard, audio_ms=900)
    assert [(delay.shown.audio_ms, delay.final.audio_ms, delay.at_end) for delay in found] == [
        (300, 800, False),
        (-100, 0, True),
    ]


def test_medians_and_percentiles() -> None:
    """By either clock; of nothing there are none."""
    found = [Delay(Moment(number, 2.0 * number), Moment(10 * number, 0.0), number == 3) for number in range(101)]
    spread = summary(found)
    assert spread is not None
    assert (spread.words, spread.at_end, spread.shown, spread.final) == (101, 1, (50, 95), (500, 950))
    by_wall = summary(found, wall=True)
    assert by_wall is not None
    assert by_wall.shown == (100, 190)
    assert summary([]) is None
