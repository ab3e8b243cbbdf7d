"""The table of --timing."""

from __future__ import annotations

import subprocess
import sys

from streamer.base.timing import Timing, process_age


def test_moments_count_from_the_start_of_the_process() -> None:
    """What the interpreter itself took is in the first moment; each name counts once."""
    age = process_age()
    assert age > 0
    timing = Timing()
    for name in ("one", "two", "one"):
        timing.mark(name)
    assert [name for name, _ in timing.moments] == ["one", "two"]
    assert age <= timing.moments[0][1] <= timing.moments[1][1]


def test_the_age_is_that_of_this_process() -> None:
    """A process that slept is as old as its sleep, also if it has a strange name."""
    code = "import time; time.sleep(0.3); from streamer.base.timing import process_age; print(process_age())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0.3 <= float(done.stdout) < 100


def test_the_report_has_a_line_for_each_moment() -> None:
    """Each line has the time since the start and since the line above."""
    timing = Timing()
    timing.moments = [("spawned", 0.1), ("done", 1.25)]
    timing.notes = ["the model took 1.00 s"]
    assert timing.report().splitlines()[1:] == [
        "     0.10    +0.10  spawned",
        "     1.25    +1.15  done",
        "  the model took 1.00 s",
    ]
