"""The report of a load measurement in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streamer.commands.traffic.report import About, content, level_line, live_lines, text
from streamer.commands.traffic.results import CLIENTS, Batches, Delay, End, Graphics, Level, WordCount, Work

ABOUT = About("streamer serve", "native", {}, ["talk.flac"], [], 10.0, 2)


def level(sessions: int, seconds: float) -> Level:
    """A level in which every delay was this long."""
    found = Level(
        sessions, whole=True, live=sessions, done=3 * sessions, audio_s=10.0 * sessions, measured_s=10.0, client_cpu=0.1
    )
    for kind in Delay:
        found.delays[kind] += [seconds] * 10
    found.late_s += [0.001] * 10
    found.words = WordCount(2, 40, 4)
    found.work = {"bridge": Work(1.0, 80.0, 1), "model": Work(2.0, 200.0, 1), CLIENTS: Work(0.5, 60.0, 2)}
    found.batches = Batches(10, 25, 4.0)
    return found


def test_the_tables() -> None:
    """Each level has a row with its delays, and one with its words and its work."""
    lines = text([level(1, 0.1), level(10, 0.2)], End.WHOLE, "", ABOUT).splitlines()
    assert lines[0] == "streamer serve: native sessions with talk.flac"
    assert f"| 10 |{' 0.20 / 0.20 / 0.20 / 0.20 |' * 5}" in lines
    assert "| 10 | 10 | 30 | 0 | 0 | 0 | 4 of 40 (10.0 %) | 2.5 / 4 |" in lines
    assert "| sessions | the service | bridge | model | clients |" in lines
    assert "| 10 | 30.0 / 280 | 10.0 / 80 | 20.0 / 200 | 5.0 / 60 |" in lines
    assert "The knee was not reached: all bounds hold with 10 sessions." in lines


def test_what_is_unknown() -> None:
    """A service elsewhere tells nothing about its processes, and a recording without a text nothing about its words."""
    found = Level(1, whole=True, live=1)
    told = text([found], End.WHOLE, "", replace(ABOUT, without_text=["talk.flac"], clients=1))
    assert "| 1 | - | - | - | - | - |" in told
    assert "| 1 | 1 | 0 | 0 | 0 | 0 | - | - |" in told
    assert "Nothing is known about them on this system." in told
    assert "No text is beside talk.flac, so wrong words were not counted there." in told


def test_what_went_wrong() -> None:
    """There is a sentence for the knee, for each fault, for the clients and for the end."""
    found = level(10, 0.9)
    found.refused["full"] += 2
    found.recovered = 3
    found.client_cpu = 0.95
    found.graphics = Graphics(0.5, 800.0)
    told = text([level(5, 0.1), found], End.SERVICE_DIED, "its process ended", ABOUT)
    for sentence in (
        "The knee is at about 5 sessions. With more, the service refused sessions.",
        "Sessions went on after a failure 3 times, with nothing lost.",
        "With 10 sessions, the GPUs computed 50 % of the time and used 800 MB.",
        "The clients were busy with 10 sessions, so they were the bottleneck there",
        "With 10 sessions, the service admitted 10 at a time; refusals: full 2.",
        "The service died during the measurement: its process ended.",
    ):
        assert sentence in told
    slow = text([level(10, 0.9)], End.INTERRUPTED, "", ABOUT)
    assert "No level holds: 5 of 100 sessions wait longer than 0.5 s for their last words." in slow
    assert "The measurement was interrupted" in slow


def test_lines_of_the_display() -> None:
    """The display says which level it is, and the line of a level has its figures."""
    found = level(10, 0.2)
    assert live_lines(found, 3.4, ABOUT, 2) == [
        "level 2: 10 sessions, 3 of 10 s",
        "delays p50/p95: partials 0.20/0.20 s, words 0.20/0.20 s, last words 0.20/0.20 s",
        "processors: bridge 10 %, model 20 %, clients 5 %",
    ]
    line = "10 sessions: partials 0.20/0.20 s, last words 0.20/0.20 s, 30 ms of processor time for a second of audio"
    assert level_line(found) == line
    assert level_line(Level(1)) == "1 session: nothing was heard"


def test_content() -> None:
    """The JSON has the machine, the bounds, the knee and the levels."""
    found: Any = content([level(1, 0.1)], End.WHOLE, "", ABOUT)
    assert found["knee"] == {"sessions": 1.0, "limit": "not reached"}
    assert found["machine"]["processors"] >= 1
    assert found["bounds_s"] == {"partial": 0.42, "last": 0.5}
    assert [each["sessions"] for each in found["levels"]] == [1]
