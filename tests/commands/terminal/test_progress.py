"""The progress of one recording and of several on a terminal, with much space and with little."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from streamer.commands.terminal import progress
from streamer.commands.terminal.progress import Progress, ProgressBoard, ProgressDisplay, Tally, WordsDisplay
from streamer.commands.terminal.status_lines import columns
from tests.commands.terminal.screen import Screen


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


TENTH = Progress(60_000, 5.0, 600_000)


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (TENTH, "a  1:00 of 10:00 (10 %), 12.0 times real time, 0:45 left"),
        (Progress(60_000, 5.0), "a  1:00, 12.0 times real time"),
        (Progress(0, 5.0, 600_000), "a  0:00 of 10:00 (0 %), 0.0 times real time"),
        (Progress(700_000, 1.0, 600_000), "a  11:40 of 10:00 (100 %), 700.0 times real time, 0:00 left"),
        (
            Progress(60_000, 5.0, 600_000, estimated=True),
            "a  1:00 of about 10:00 (10 %), 12.0 times real time, 0:45 left",
        ),
    ],
)
def test_how_far_a_recording_is(progress: Progress, text: str) -> None:
    """The text has amount, speed and remaining time; without a length only what is known."""
    assert progress.of_one("a", 80) == text


@pytest.mark.parametrize(
    ("room", "text"),
    [
        (74, "monday-morning.wav  1:00 of 10:00 (10 %), 12.0 times real time, 0:45 left"),
        (71, "monday-morning.…  1:00 of 10:00 (10 %), 12.0 times real time, 0:45 left"),
        (59, "monday-morning.wav  1:00 of 10:00 (10 %), 12.0x, 0:45 left"),
        (57, "monday-morning.w…  1:00 of 10:00 (10 %), 12.0x, 0:45 left"),
        (50, "monday-morning.w…  1:00 of 10:00 (10 %), 0:45 left"),
        (39, "monday-morning.wav  10 %, 0:45 left"),
        (30, "monday-morning.wav  0:45 left"),
        (20, "10 %, 0:45 left"),
        (10, "0:45 left"),
        (8, "0:45 le…"),
    ],
)
def test_what_does_not_fit_is_told_shorter(room: int, text: str) -> None:
    """When space is short, the remaining time is the last part to be dropped."""
    shown = TENTH.of_one("monday-morning.wav", room)
    assert columns(shown) <= room
    assert shown == text


@pytest.mark.parametrize(
    ("room", "text"),
    [
        (82, "3 of 8 recordings; 1 failed; 1:00 of 10:00 (10 %), 12.0 times real time, 0:45 left"),
        (78, "3 of 8 recordings; 1 failed; 1:00 of 10:00 (10 %), 12.0x, 0:45 left"),
        (60, "3 of 8 recordings; 1 failed; 1:00 of 10:00 (10 %), 0:45 left"),
        (58, "3 of 8 recordings; 1 failed; 10 %, 0:45 left"),
        (39, "3 of 8 recordings; 1 failed; 0:45 left"),
        (16, "10 %, 0:45 left"),
    ],
)
def test_how_far_several_are(room: int, text: str) -> None:
    """The text says how many recordings are done, and how many failed."""
    shown = TENTH.of_all(Tally(8, done=3, failed=1), room)
    assert columns(shown) <= room
    assert shown == text


def test_what_it_came_to() -> None:
    """At the end the text says how much was recognised, and in what time."""
    ended = TENTH.at_the_end(Tally(2, done=1, failed=1))
    assert ended == "1 of 2 recordings; 1 failed; 1:00 in 0:05.0, 12.0 times real time"
    assert TENTH.at_the_end(Tally(2, done=2)).startswith("2 of 2 recordings, ")


@pytest.mark.parametrize(
    ("tally", "text"),
    [
        (Tally(5, done=2, failed=3), "2 of 5 recordings; 3 failed"),
        (Tally(3, done=2, skipped=1), "2 of 3 recordings; 1 already there"),
        (Tally(9, done=2, skipped=4, failed=1), "2 of 9 recordings; 1 failed; 4 already there"),
        (Tally(9, done=2, interrupted=True), "2 of 9 recordings; interrupted"),
        (Tally(1, failed=1), "0 of 1 recording; 1 failed"),
    ],
)
def test_what_was_named_is_counted(tally: Tally, text: str) -> None:
    """All named recordings are counted: those done, failed, skipped and interrupted."""
    assert str(tally) == text


class Clock:
    """A clock that the test sets."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    result = Clock()
    monkeypatch.setattr(progress, "time", result)
    return result


@pytest.fixture
def one_screen() -> Iterator[Screen]:
    """A terminal of 60 columns."""
    result = Screen(60)
    yield result
    result.close()


def test_progress_waits_and_is_not_drawn_too_often(clock: Clock, one_screen: Screen) -> None:
    """Nothing is shown within a second, and then progress is drawn at most five times a second."""
    display = ProgressDisplay(one_screen.stream)
    display.begin(0, "folder/a.mp3", 60_000)
    for passed, heard, drawn in ((0.5, 10_000, 0), (1.2, 30_000, 1), (1.3, 31_000, 0), (1.5, 32_000, 1)):
        clock.now = 100.0 + passed
        display.advance(0, heard)
        assert one_screen.shown().count("\x1b[K") == drawn
    assert one_screen.lines() == ["a.mp3  0:32 of 1:00 (53 %), 21.3 times real time, 0:01 left"]
    display.close()
    assert one_screen.lines() == []


@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_the_time_left_is_told_in_any_width(clock: Clock, width: int) -> None:
    """The remaining time is shown at any width, however long the name is."""
    screen = Screen(width)
    display = ProgressDisplay(screen.stream)
    display.begin(0, "a recording with a very long name indeed, 字幕.wav", 3_600_000)
    clock.now += 10
    display.advance(0, 60_000)
    [line] = screen.lines()
    assert line.endswith("9:50 left")
    assert columns(line) < width
    screen.close()


@pytest.mark.parametrize("progress", [True, False])
def test_words_with_how_far_a_long_recording_is(clock: Clock, one_screen: Screen, progress: bool) -> None:
    """Progress is shown below the words of a long recording, also during silence, but not for a short one."""
    display = WordsDisplay(one_screen.stream, progress=progress)
    display.begin(0, "calls/a.wav", 120_000)
    partial = {"text": "it was", "stable": 0, "start_ms": 58_000, "audio_ms": 60_000}
    clock.now += 5
    display.words(0, partial)
    below = ["a.wav  1:00 of 2:00 (50 %), 12.0 times real time, 0:05 left"] if progress else []
    assert one_screen.lines() == ["[0:58.0] it was", *below]
    clock.now += 5
    display.advance(0, 90_000)
    below = ["a.wav  1:30 of 2:00 (75 %), 9.0 times real time, 0:03 left"] if progress else []
    assert one_screen.lines()[1:] == below
    display.clear()
    assert one_screen.lines() == []
    display.begin(0, "b.wav", 59_000)
    clock.now += 5
    display.words(0, partial)
    assert one_screen.lines() == ["[0:58.0] it was"]
