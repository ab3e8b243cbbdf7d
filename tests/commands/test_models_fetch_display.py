"""How the progress of a download is written."""

from __future__ import annotations

import io

import pytest

from streamer.commands.models import FetchDisplay


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Whether it is one."""
        return True


def test_lines_for_a_file() -> None:
    """A file gets a line for each tenth, and none if the length is not known."""
    stream = io.StringIO()
    with FetchDisplay(stream, "mine") as display:
        for done in range(0, 2_000_001, 50_000):
            display.progress("fetched", done, 2_000_000)
        display.progress("unpacked", 1, None)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "streamer: mine: fetched 10 % of 2.0 MB."
    assert len(lines) == 10


def test_a_bar_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar has the amount, the speed of this attempt and the remaining time, and is not drawn too often."""
    monkeypatch.setenv("TERM", "xterm")
    stream, times = Screen(), iter([0.0, 0.1, 2.0])
    with FetchDisplay(stream, "mine", clock=lambda: next(times)) as display:
        for done in (4_000_000, 4_100_000, 5_000_000):
            display.progress("fetched", done, 10_000_000)
    assert "fetched  ██████████░░░░░░░░░░   50 %, 5.0 of 10.0 MB, 0.5 MB/s, 0:10 left" in stream.getvalue()
    assert "4.1 of" not in stream.getvalue()
