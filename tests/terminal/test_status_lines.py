"""Lines that change in place, on a terminal of a given width."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from streamer.terminal.status_lines import StatusLine, StatusLines, is_terminal, size_of
from streamer.terminal.text_width import columns
from tests.terminal.screen import Screen


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
