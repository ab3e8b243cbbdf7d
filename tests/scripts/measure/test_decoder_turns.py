"""The script that measures what decoders take from a process of the service."""

from __future__ import annotations

import sys

import pytest

from tests.scripts.program import run


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives time to sessions")
def test_each_way_has_its_line() -> None:
    """Each priority has the time of a decoder and the delay of the service."""
    done = run("measure/decoder_turns.py", "--decoders", 2, "--seconds", 0.2, "--rounds", 1)
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [way for way, _, _ in rows] == ["no priority", "nice alone", "as a decoder"]
    assert all(time.endswith(" s") and late.endswith(" ms") for _, time, late in rows)
