"""What is shown of one recording: its words or its progress."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamer.terminal import transcription_display
from streamer.terminal.text_width import columns
from streamer.terminal.transcription_display import ProgressDisplay, WordsDisplay
from tests.terminal.screen import Screen


class Clock:
    """A clock that the test sets."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    result = Clock()
    monkeypatch.setattr(transcription_display, "time", result)
    return result


@pytest.fixture
def screen() -> Iterator[Screen]:
    """A terminal of 60 columns."""
    result = Screen(60)
    yield result
    result.close()


def test_progress_waits_and_is_not_drawn_too_often(clock: Clock, screen: Screen) -> None:
    """Nothing is shown within a second, and then progress is drawn at most five times a second."""
    display = ProgressDisplay(screen.stream)
    display.begin(0, "folder/a.mp3", 60_000)
    for passed, heard, drawn in ((0.5, 10_000, 0), (1.2, 30_000, 1), (1.3, 31_000, 0), (1.5, 32_000, 1)):
        clock.now = 100.0 + passed
        display.advance(0, heard)
        assert screen.shown().count("\x1b[K") == drawn
    assert screen.lines() == ["a.mp3  0:32 of 1:00 (53 %), 21.3 times real time, 0:01 left"]
    display.close()
    assert screen.lines() == []


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
def test_words_with_how_far_a_long_recording_is(clock: Clock, screen: Screen, progress: bool) -> None:
    """Progress is shown below the words of a long recording, also during silence, but not for a short one."""
    display = WordsDisplay(screen.stream, progress=progress)
    display.begin(0, "calls/a.wav", 120_000)
    partial = {"text": "it was", "stable": 0, "start_ms": 58_000, "audio_ms": 60_000}
    clock.now += 5
    display.words(0, partial)
    below = ["a.wav  1:00 of 2:00 (50 %), 12.0 times real time, 0:05 left"] if progress else []
    assert screen.lines() == ["[0:58.0] it was", *below]
    clock.now += 5
    display.advance(0, 90_000)
    below = ["a.wav  1:30 of 2:00 (75 %), 9.0 times real time, 0:03 left"] if progress else []
    assert screen.lines()[1:] == below
    display.clear()
    assert screen.lines() == []
    display.begin(0, "b.wav", 59_000)
    clock.now += 5
    display.words(0, partial)
    assert screen.lines() == ["[0:58.0] it was"]
