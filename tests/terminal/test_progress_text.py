"""Progress as text, with much space and with little."""

from __future__ import annotations

import pytest

from streamer.terminal.progress_text import Progress, Tally
from streamer.terminal.text_width import columns

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
