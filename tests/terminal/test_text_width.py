"""Text in columns: how much fits, and where lines break."""

from __future__ import annotations

import pytest

from streamer.terminal.text_width import beginning, columns, ending, first_that_fits, printable, wrap

# The widths in tmux 3.3 or xterm 379, whichever is larger: scripts/measure/terminal_columns.py.
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


def test_words_cannot_steer_the_terminal() -> None:
    """Control characters and direction marks are shown as spaces."""
    assert printable("a\x1b[31mb\rc\nd\x9be\u202ef") == "a [31mb c d e f"
    assert printable("plain 字 é") == "plain 字 é"
