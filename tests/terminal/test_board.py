"""The progress of several recordings, as a terminal shows it."""

from __future__ import annotations

import os
import pty
import select
import struct
import termios
from collections.abc import Iterator
from fcntl import ioctl

import pytest

import streamer.terminal.board
from streamer.terminal.board import Board
from streamer.terminal.lines import beginning, columns, ending


class Screen:
    """A terminal with a clock: understands what a board needs, and keeps the lines as they stand."""

    def __init__(self, width: int, height: int) -> None:
        self._outside, inside = pty.openpty()
        ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.stream = os.fdopen(inside, "w", encoding="utf-8")
        self.now = 100.0
        self._lines = [""]
        self._row = 0

    def lines(self) -> list[str]:
        """What is to be seen."""
        received = b""
        while select.select([self._outside], [], [], 0.05)[0]:
            received += os.read(self._outside, 65536)
        rest = received.decode()
        while rest:
            if rest.startswith("\x1b["):
                end = next(place for place, character in enumerate(rest) if character.isalpha())
                self._steer(rest[2:end], rest[end])
                rest = rest[end + 1 :]
                continue
            if rest[0] == "\n":
                self._row += 1
                self._lines += [""] * (self._row + 1 - len(self._lines))
            elif rest[0] == "\r":
                self._column = 0
            else:
                self._lines[self._row] = self._lines[self._row][: self._column] + rest[0]
                self._column += 1
            rest = rest[1:]
        return [line for line in self._lines if line]

    _column = 0

    def _steer(self, number: str, kind: str) -> None:
        assert kind in "AJ"
        if kind == "A":
            self._row -= int(number)
            assert self._row >= 0
        else:
            self._lines[self._row :] = [self._lines[self._row][: self._column]]

    def close(self) -> None:
        self.stream.close()
        os.close(self._outside)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """A terminal of 60 columns."""
    result = Screen(60, 12)
    monkeypatch.setattr(streamer.terminal.board.time, "monotonic", lambda: result.now)
    yield result
    result.close()


def test_a_line_for_each_in_work_and_one_for_all(screen: Screen) -> None:
    """Name, bar and share of each; how many, how far, how fast and how long still of all."""
    board = Board(screen.stream, 3, words=False)
    board.expect(2, 20_000)
    board.begin(0, "calls/a.wav", 40_000)
    board.begin(1, "b.flac", 60_000)
    screen.now += 2
    board.heard(0, 10_000)
    screen.now += 2
    board.heard(1, 30_000)
    assert screen.lines() == [
        "a.wav   ██░░░░░░░░  25%  ",
        "b.flac  █████░░░░░  50%  ",
        "0 of 3 recordings, 0:40 of 2:00 (33 %), 10.0 times real ti…",
    ]
    board.heard(0, 40_000)
    board.end(0, failed=False)
    screen.now += 4
    board.heard(1, 40_000)
    assert screen.lines()[0] == "b.flac  ███████░░░  67%  "
    assert screen.lines()[1].startswith("1 of 3 recordings, 1:20 of 2:00 (66 %), 10.0 times real")


def test_at_the_end_what_it_came_to_stays(screen: Screen) -> None:
    """One line, in the place of all the others; failures are counted, what was heard of them too."""
    board = Board(screen.stream, 2, words=False)
    board.begin(0, "a.wav", 60_000)
    screen.now += 5
    board.heard(0, 60_000)
    board.end(0, failed=False)
    board.begin(1, "b.wav", 60_000)
    screen.now += 5
    board.heard(1, 30_000)
    board.end(1, failed=True)
    board.close()
    assert screen.lines() == ["2 of 2 recordings (1 failed), 1:30 in 0:10.0, 9.0 times real time"]


def test_what_was_interrupted_is_neither_done_nor_failed(screen: Screen) -> None:
    """What was heard of it counts as heard."""
    board = Board(screen.stream, 3, words=False)
    board.begin(0, "a.wav", 60_000)
    screen.now += 5
    board.heard(0, 30_000)
    board.close()
    assert screen.lines() == ["0 of 3 recordings, 0:30 in 0:05.0, 6.0 times real time"]


def test_what_is_done_in_a_moment_shows_nothing(screen: Screen) -> None:
    """Before a second has passed, and at most five times a second after it; a start of the service does not count."""
    board = Board(screen.stream, 2, words=False)
    screen.now += 60
    board.begin(0, "a.wav", 60_000)
    screen.now += 0.5
    board.heard(0, 30_000)
    assert screen.lines() == []
    screen.now += 0.6
    board.heard(0, 30_000)
    screen.now += 0.1
    board.heard(0, 60_000)
    assert "50%" in screen.lines()[0]
    board.close()
    assert len(screen.lines()) == 1


def test_other_lines_may_come_between(screen: Screen) -> None:
    """After something else was written the board stands below it, at once."""
    board = Board(screen.stream, 2, words=True)
    board.begin(0, "a.wav", None)
    screen.now += 2
    board.words(0, {"type": "partial", "text": "it was", "stable": 0})
    board.heard(0, 3_000)
    assert screen.lines()[0] == "a.wav           0:03.0  it was"
    board.clear()
    screen.stream.write("[0:00.0] it was\n")
    board.words(0, {"type": "partial", "text": "a", "stable": 0})
    board.heard(0, 3_100)
    assert screen.lines()[:2] == ["[0:00.0] it was", "a.wav           0:03.1  a"]
    assert screen.lines()[2].startswith("0 of 2 recordings, 0:03, 1.6 times real time")


def test_it_never_wraps_and_never_scrolls(screen: Screen) -> None:
    """However long names and words are, and however many are in work."""
    board = Board(screen.stream, 100, words=True)
    for index in range(40):
        board.begin(index, f"{'字幕' * 20}{index}.wav", 60_000)
        board.words(index, {"type": "partial", "text": "word " * 30 + "end", "stable": 0})
    screen.now += 2
    board.heard(0, 1_000)
    lines = screen.lines()
    assert len(lines) == 10
    assert max(map(columns, lines)) <= 59
    assert all(line.endswith("end") for line in lines[:8])
    assert lines[8] == "… and 32 more"
    assert "about 1:40:00" in lines[9]


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
    """At either end, with an ellipsis, by columns."""
    assert beginning(text, room) == first
    assert ending(text, room) == last
