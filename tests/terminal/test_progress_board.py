"""The progress of several recordings on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from streamer.terminal.progress_board import ProgressBoard
from streamer.terminal.progress_text import Tally
from streamer.terminal.text_width import columns
from tests.terminal.screen import Screen


class TimedScreen(Screen):
    """A terminal with a clock."""

    now = 100.0


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[TimedScreen]:
    """A terminal of 60 columns."""
    result = TimedScreen(60, 12)
    monkeypatch.setattr(time, "monotonic", lambda: result.now)
    yield result
    result.close()


def test_a_line_for_each_in_work_and_one_for_all(screen: TimedScreen) -> None:
    """Each recording has its name, bar and share; the sum has count, amount, speed and remaining time."""
    tally = Tally(3)
    board = ProgressBoard(screen.stream, tally, words=False)
    board.expect(2, 20_000)
    board.begin(0, "calls/a.wav", 40_000)
    board.begin(1, "b.flac", 60_000)
    screen.now += 2
    board.advance(0, 10_000)
    screen.now += 2
    board.advance(1, 30_000)
    assert screen.lines() == [
        "a.wav   ██░░░░░░░░  25%",
        "b.flac  █████░░░░░  50%",
        "0 of 3 recordings, 0:40 of 2:00 (33 %), 10.0x, 0:08 left",
    ]
    board.advance(0, 40_000)
    tally.done += 1
    board.end(0)
    screen.now += 4
    board.advance(1, 40_000)
    assert screen.lines()[0] == "b.flac  ███████░░░  67%"
    assert screen.lines()[1] == "1 of 3 recordings, 1:20 of 2:00 (66 %), 10.0x, 0:04 left"


def test_at_the_end_what_it_came_to_stays(screen: TimedScreen) -> None:
    """A summary replaces all lines at the end. Failures are counted, and their recognised audio too."""
    tally = Tally(5, failed=2)
    board = ProgressBoard(screen.stream, tally, words=False)
    board.begin(0, "a.wav", 60_000)
    screen.now += 5
    board.advance(0, 60_000)
    tally.done += 1
    board.end(0)
    board.begin(1, "b.wav", 60_000)
    screen.now += 5
    board.advance(1, 30_000)
    tally.failed += 1
    board.end(1)
    assert board.close()
    assert screen.lines() == ["1 of 5 recordings; 3 failed; 1:30 in 0:10.0, 9.0 times real", "time"]


def test_what_was_interrupted_is_neither_done_nor_failed(screen: TimedScreen) -> None:
    """An interrupted recording is neither done nor failed, but its recognised audio counts."""
    board = ProgressBoard(screen.stream, Tally(3), words=False)
    board.begin(0, "a.wav", 60_000)
    screen.now += 5
    board.advance(0, 30_000)
    board.close()
    assert screen.lines() == ["0 of 3 recordings, 0:30 in 0:05.0, 6.0 times real time"]


def test_what_is_done_in_a_moment_shows_nothing(screen: TimedScreen) -> None:
    """Nothing is shown in the first second, then at most five times a second; the start of a service does not count."""
    board = ProgressBoard(screen.stream, Tally(2), words=False)
    screen.now += 60
    board.begin(0, "a.wav", 60_000)
    screen.now += 0.5
    board.advance(0, 30_000)
    assert screen.lines() == []
    screen.now += 0.6
    board.advance(0, 30_000)
    screen.now += 0.1
    board.advance(0, 60_000)
    assert "50%" in screen.lines()[0]
    board.close()
    assert len(screen.lines()) == 1


def test_other_lines_may_come_between(screen: TimedScreen) -> None:
    """After other output, the board is drawn below it at once."""
    board = ProgressBoard(screen.stream, Tally(2), words=True)
    board.begin(0, "a.wav", None)
    screen.now += 2
    board.words(0, {"type": "partial", "text": "it was", "stable": 0})
    board.advance(0, 3_000)
    assert screen.lines()[0] == "a.wav           0:03.0  it was"
    board.clear()
    screen.stream.write("[0:00.0] it was\n")
    board.words(0, {"type": "partial", "text": "a", "stable": 0})
    board.advance(0, 3_100)
    assert screen.lines()[:2] == ["[0:00.0] it was", "a.wav           0:03.1  a"]
    assert screen.lines()[2] == "0 of 2 recordings, 0:03, 1.6 times real time"


def test_it_never_wraps_and_never_scrolls(screen: TimedScreen) -> None:
    """However long the names and words are, and however many recordings there are, the board never wraps or scrolls."""
    board = ProgressBoard(screen.stream, Tally(100), words=True)
    for index in range(40):
        board.begin(index, f"{'字幕' * 20}{index}.wav", 60_000)
        board.words(index, {"type": "partial", "text": "word " * 30 + "end", "stable": 0})
    screen.now += 2
    board.advance(0, 1_000)
    lines = screen.lines()
    assert len(lines) == 10
    assert max(map(columns, lines)) <= 59
    assert all(line.endswith("end") for line in lines[:8])
    assert lines[8] == "… and 32 more"
    assert lines[9] == "0 of 100 recordings, 0 %, 3:19:58 left"
