"""Lines that change in place on a terminal of a given width: where they break, and the words of a session."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from streamer.commands.terminal.status_lines import (
    LiveWords,
    StatusLine,
    StatusLines,
    beginning,
    columns,
    ending,
    final_lines,
    first_that_fits,
    is_terminal,
    size_of,
    wrap,
)
from tests.commands.terminal.screen import Screen


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """A terminal of 40 columns that wraps lines again when it is resized."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name in ("TMUX", "XTERM_VERSION", "STY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    result = Screen(40)
    yield result
    result.close()


def test_the_stable_part_is_normal_and_the_rest_dim(screen: Screen) -> None:
    """Text that may still change looks different from text that will not."""
    StatusLine(screen.stream).show_text("[0:03.2] ", "hello wor", 6)
    assert screen.shown() == "\r\x1b[K[0:03.2] hello \x1b[2mwor\x1b[0m"


def test_no_color_is_respected(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR nothing is dim."""
    monkeypatch.setenv("NO_COLOR", "1")
    StatusLine(screen.stream).show_text("", "hello wor", 6)
    assert screen.shown() == "\r\x1b[Khello wor"


@pytest.mark.parametrize("text", ["word " * 30, "字幕" * 30, "a" * 38, "a" * 39, "a" * 40, "字" * 20])
def test_a_long_text_shows_its_end_in_one_line(screen: Screen, text: str) -> None:
    """However long the text and however wide its characters, the line never wraps and shows the newest text."""
    StatusLine(screen.stream).show_text("", text, 4)
    shown = re.sub(r"\x1b\[\d*[A-Za-z]|\r", "", screen.shown())
    assert columns(shown) <= 39
    assert shown.endswith(text[-10:])
    assert ("…" in shown) == (columns(text) > 39)


def test_a_cut_line_dims_the_right_part(screen: Screen) -> None:
    """The stable part is also right in a cut line."""
    line = StatusLine(screen.stream)
    line.show_text("[0:00.0] ", "a" * 50 + "bbb", 50)
    assert screen.shown().endswith("…" + "a" * 26 + "\x1b[2mbbb\x1b[0m")
    line.show_text("[0:00.0] ", "a" * 10 + "b" * 50, 10)
    assert screen.shown().endswith("\x1b[2m…" + "b" * 29 + "\x1b[0m")


def test_clear_writes_nothing_when_nothing_is_shown(screen: Screen) -> None:
    """Other output is not erased."""
    lines = StatusLines(screen.stream)
    lines.clear()
    lines.show(["x"])
    lines.clear()
    lines.clear()
    assert screen.shown().count("\x1b[K") == 2


def test_several_lines_change_in_place(screen: Screen) -> None:
    """Fewer or more lines may follow, and a line that stays may replace them."""
    print("before", file=screen.stream)
    lines = StatusLines(screen.stream)
    for drawn in (["a", "b", "c"], ["d", "字" * 30], ["e"], ["f", "g", "h"]):
        lines.show(drawn)
        assert screen.lines()[1:] == [line if line != "字" * 30 else "字" * 19 + "…" for line in drawn]
    lines.keep("it stays,\x1b[31m however long it is, and control characters are spaces")
    print("after", file=screen.stream, flush=True)
    kept = ["it stays, [31m however long it is, and", "control characters are spaces"]
    assert screen.lines() == ["before", *kept, "after"]


@pytest.mark.parametrize("width", [39, 30, 20, 13, 7, 60])
def test_a_resized_window_has_no_leftovers(screen: Screen, width: int) -> None:
    """Lines for a wider window wrap in a narrower one, and are still erased completely."""
    print("before", file=screen.stream)
    lines = StatusLines(screen.stream)
    lines.show(["a" * 39, "b" * 15, "", "c" * 31])
    screen.resize(width)
    lines.show(["d", "e"])
    assert screen.lines() == ["before", "d", "e"]
    lines.clear()
    line = StatusLine(screen.stream)
    line.show_text("", "f" * (width - 1), 0)
    screen.resize(max(4, width // 2))
    line.show_text("", "g", 0)
    assert screen.lines()[-1] == "g"
    assert "f" not in "".join(screen.lines()[1:])


@pytest.mark.parametrize(("variable", "rows"), [("XTERM_VERSION", 2), ("STY", 2), ("TMUX", 3)])
def test_terminals_that_cut_lines_off(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, variable: str, rows: int
) -> None:
    """In xterm and screen a line stays one row in a narrower window, so no more is erased than was drawn."""
    monkeypatch.setenv(variable, "of some version")
    lines = StatusLines(screen.stream)
    lines.show(["a" * 39, "b" * 15])
    screen.resize(20)
    screen.shown()
    lines.clear()
    assert screen.shown() == "\x1b[A".join(["\r\x1b[K"] * rows)


def test_a_dumb_terminal_is_none(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal without control sequences does not count as one, and neither does a pipe."""
    assert is_terminal(screen.stream)
    monkeypatch.setenv("TERM", "dumb")
    assert not is_terminal(screen.stream)
    monkeypatch.setenv("TERM", "xterm")
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as piped:
        assert not is_terminal(piped)
        assert size_of(piped) == (80, 24)
    os.close(reading)


# The widths in tmux 3.3 or xterm 379, whichever is larger.
WIDTHS = {
    "hello": 5,
    "e\u0301te\u0301": 3,
    "字幕と言葉": 10,
    "ｶﾅ": 2,
    "\uff21\uff22": 4,
    "한국어": 6,
    "ภาษาไทยน้ำ": 9,
    "हिन्दी": 5,
    "العربية": 7,
    "👍🏽": 4,
    "👩\u200d👩\u200d👧": 6,
    "🇩🇪": 2,
}


@pytest.mark.parametrize("text", WIDTHS)
def test_no_text_is_wider_than_thought(text: str) -> None:
    """The calculated width is never too small, because then a line would wrap."""
    assert WIDTHS[text] <= columns(text) <= WIDTHS[text] + 2


@pytest.mark.parametrize(
    ("text", "room", "first", "last"),
    [
        ("abcdef", 6, "abcdef", "abcdef"),
        ("abcdef", 4, "abc…", "…def"),
        ("字幕字", 4, "字…", "…字"),
        ("ab", 1, "…", "…"),
    ],
)
def test_what_does_not_fit_is_cut(text: str, room: int, first: str, last: str) -> None:
    """Text that does not fit is cut by columns at either end, with an ellipsis."""
    assert beginning(text, room) == first
    assert ending(text, room) == last


@pytest.mark.parametrize(
    ("text", "room", "lines"),
    [
        ("", 10, [""]),
        ("one two three", 13, ["one two three"]),
        ("one two three", 12, ["one two", "three"]),
        ("one two three", 7, ["one two", "three"]),
        ("one two three", 5, ["one", "two", "three"]),
        ("a donaudampfschifffahrt b", 10, ["a donaudam", "pfschifffa", "hrt b"]),
        ("donaudampf b", 10, ["donaudampf", "b"]),
        ("字幕と言葉", 5, ["字幕", "と言", "葉"]),
        ("a 字幕と言葉 b", 7, ["a 字幕", "と言葉", "b"]),
        ("字", 1, ["字"]),
        ("ab cd", 1, ["a", "b", "c", "d"]),
    ],
)
def test_lines_break_between_words(text: str, room: int, lines: list[str]) -> None:
    """Only words wider than a line are divided, and no character is lost."""
    assert wrap(text, room) == lines
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_the_first_that_fits() -> None:
    """If no text fits, the beginning of the last one is taken."""
    choices = ("one hundred", "hundred", "100")
    assert [first_that_fits(choices, room) for room in (11, 10, 3, 2)] == ["one hundred", "hundred", "100", "1…"]


WORDS = "it was a dark and stormy night and the rain fell in torrents"


@pytest.fixture
def words_screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """A terminal of 40 columns."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    result = Screen(40)
    yield result
    result.close()


def test_a_final_takes_the_place_of_the_partial_and_stays(words_screen: Screen) -> None:
    """The lines of a final end between words, and are indented by its time."""
    live = LiveWords(words_screen.stream)
    live.partial({"text": "it was a", "stable": 0, "start_ms": 61_000})
    assert words_screen.lines() == ["[1:01.0] it was a"]
    live.final({"text": WORDS, "start_ms": 61_000})
    live.partial({"text": "at", "stable": 0, "start_ms": 66_000, "channel": 1}, start="● ")
    kept = ["[1:01.0] it was a dark and stormy night", "         and the rain fell in torrents"]
    assert words_screen.lines() == [*kept, "● [1:06.0] [2] at"]
    live.clear()
    assert words_screen.lines() == kept
    live.silence(70_000, "● ")
    assert words_screen.lines() == [*kept, "● [1:10.0]"]


@pytest.mark.parametrize("width", [10, 20, 39, 40, 60, 100])
def test_no_word_is_broken(width: int) -> None:
    """At any width no word is divided, and none is lost."""
    screen = Screen(width)
    lines = final_lines({"text": WORDS, "start_ms": 0, "channel": 0}, screen.stream).splitlines()
    assert max(map(len, lines)) < width
    assert " ".join(lines).split() == ["[0:00.0]", "[1]", *WORDS.split()]
    screen.close()


def test_live_words_cannot_steer_the_terminal(words_screen: Screen) -> None:
    """Control characters in a text are shown as spaces."""
    assert (
        final_lines({"text": "a\x1b[31mb\rc\vd\x9be", "start_ms": 0}, words_screen.stream) == "[0:00.0] a [31mb c d e\n"
    )


def test_a_dictated_line_break_breaks_the_line(words_screen: Screen) -> None:
    """The next line begins below the words; a new paragraph leaves a line empty."""
    lines = final_lines({"text": "Dear Ada,\n\nhello.\nYours", "start_ms": 0}, words_screen.stream)
    assert lines.split("\n") == ["[0:00.0] Dear Ada,", " " * 9, " " * 9 + "hello.", " " * 9 + "Yours", ""]


def test_what_is_stable_is_told_by_its_channel_too(words_screen: Screen) -> None:
    """The channel before the words is not dim."""
    LiveWords(words_screen.stream).partial({"text": "hello wor", "stable": 6, "start_ms": 0, "channel": 0})
    assert words_screen.shown() == "\r\x1b[K[0:00.0] [1] hello \x1b[2mwor\x1b[0m"
