"""The words of one session on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamer.terminal.live_words import LiveWords, final_lines
from tests.terminal.screen import Screen

WORDS = "it was a dark and stormy night and the rain fell in torrents"


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """A terminal of 40 columns."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    result = Screen(40)
    yield result
    result.close()


def test_a_final_takes_the_place_of_the_partial_and_stays(screen: Screen) -> None:
    """The lines of a final end between words, and are indented by its time."""
    live = LiveWords(screen.stream)
    live.partial({"text": "it was a", "stable": 0, "start_ms": 61_000})
    assert screen.lines() == ["[1:01.0] it was a"]
    live.final({"text": WORDS, "start_ms": 61_000})
    live.partial({"text": "at", "stable": 0, "start_ms": 66_000, "channel": 1}, start="● ")
    kept = ["[1:01.0] it was a dark and stormy night", "         and the rain fell in torrents"]
    assert screen.lines() == [*kept, "● [1:06.0] [2] at"]
    live.clear()
    assert screen.lines() == kept
    live.silence(70_000, "● ")
    assert screen.lines() == [*kept, "● [1:10.0]"]


@pytest.mark.parametrize("width", [10, 20, 39, 40, 60, 100])
def test_no_word_is_broken(width: int) -> None:
    """At any width no word is divided, and none is lost."""
    screen = Screen(width)
    lines = final_lines({"text": WORDS, "start_ms": 0, "channel": 0}, screen.stream).splitlines()
    assert max(map(len, lines)) < width
    assert " ".join(lines).split() == ["[0:00.0]", "[1]", *WORDS.split()]
    screen.close()


def test_words_cannot_steer_the_terminal(screen: Screen) -> None:
    """Control characters in a text are shown as spaces."""
    assert final_lines({"text": "a\x1b[31mb\rc\vd\x9be", "start_ms": 0}, screen.stream) == "[0:00.0] a [31mb c d e\n"


def test_a_dictated_line_break_breaks_the_line(screen: Screen) -> None:
    """The next line begins below the words; a new paragraph leaves a line empty."""
    lines = final_lines({"text": "Dear Ada,\n\nhello.\nYours", "start_ms": 0}, screen.stream)
    assert lines.split("\n") == ["[0:00.0] Dear Ada,", " " * 9, " " * 9 + "hello.", " " * 9 + "Yours", ""]


def test_what_is_stable_is_told_by_its_channel_too(screen: Screen) -> None:
    """The channel before the words is not dim."""
    LiveWords(screen.stream).partial({"text": "hello wor", "stable": 6, "start_ms": 0, "channel": 0})
    assert screen.shown() == "\r\x1b[K[0:00.0] [1] hello \x1b[2mwor\x1b[0m"
