"""Lines that change in place, as a terminal of a given width shows them."""

from __future__ import annotations

import os
import pty
import re
import select
import struct
import termios
from collections.abc import Callable, Iterator
from fcntl import ioctl
from typing import TextIO

import pytest

import streamer.terminal.lines
from streamer.terminal.lines import LiveText, Progress, StatusLine, columns, described, is_terminal, printable


class Terminal:
    """A pseudo-terminal: `stream` writes to it, `shown()` is what came out."""

    def __init__(self, width: int = 40) -> None:
        self._outside, inside = pty.openpty()
        ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        self.stream: TextIO = os.fdopen(inside, "w")

    def shown(self) -> str:
        """What was written since the last call."""
        received = b""
        while select.select([self._outside], [], [], 0.05)[0]:  # a terminal hands out what it likes at a time
            received += os.read(self._outside, 65536)
        return received.decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self._outside)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal of 40 columns."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    result = Terminal()
    yield result
    result.close()


def bare(shown: str) -> str:
    """Without the sequences that dim and erase."""
    return re.sub(r"\x1b\[\d*[A-Za-z]", "", shown).replace("\r", "").strip("\n")


def test_the_stable_part_is_normal_and_the_rest_dim(terminal: Terminal) -> None:
    """What may still change looks different from what will not."""
    LiveText(terminal.stream).partial("hello wor", 6, 3240)
    assert terminal.shown() == "\r\x1b[K[0:03.2] hello \x1b[2mwor\x1b[0m"


def test_no_color_is_respected(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR nothing is dimmed."""
    monkeypatch.setenv("NO_COLOR", "1")
    LiveText(terminal.stream).partial("hello wor", 6, 3240)
    assert terminal.shown() == "\r\x1b[K[0:03.2] hello wor"


@pytest.mark.parametrize("text", ["word " * 30, "字幕" * 30, "a" * 29, "a" * 30, "a" * 31, "字" * 15])
def test_a_long_partial_shows_its_end_in_one_line(terminal: Terminal, text: str) -> None:
    """However long the text is and however wide its characters, the line never wraps and the newest is there."""
    LiveText(terminal.stream).partial(text, 4, 0)
    shown = bare(terminal.shown())
    assert columns(shown) <= 39
    assert shown.endswith(text[-10:])
    assert ("…" in shown) == (9 + columns(text) > 39)


def test_a_cut_line_dims_the_right_part(terminal: Terminal) -> None:
    """The limit of the stable part moves with the cut."""
    LiveText(terminal.stream).partial("a" * 50 + "bbb", 50, 0)
    assert terminal.shown().endswith("…" + "a" * 26 + "\x1b[2mbbb\x1b[0m")
    LiveText(terminal.stream).partial("a" * 10 + "b" * 50, 10, 0)
    assert terminal.shown().endswith("\x1b[2m…" + "b" * 29 + "\x1b[0m")


def test_a_final_replaces_the_partial_and_stays(terminal: Terminal) -> None:
    """The final's line ends with a newline and can be of any length."""
    live = LiveText(terminal.stream)
    live.partial("hello", 0, 0)
    live.final("hello " * 20, 61_000)
    live.partial("more", 0, 62_000)
    live.clear()
    shown = terminal.shown()
    assert "\r\x1b[K[1:01.0] " + "hello " * 20 + "\r\n" in shown
    assert shown.endswith("\r\x1b[K")


def test_clear_writes_nothing_when_nothing_is_shown(terminal: Terminal) -> None:
    """A line that somebody else wrote is not erased."""
    line = StatusLine(terminal.stream)
    line.clear()
    line.show("", "x", 0)
    line.clear()
    line.clear()
    assert terminal.shown().count("\x1b[K") == 2


def test_words_cannot_steer_the_terminal(terminal: Terminal) -> None:
    """Control characters in a text are shown as spaces."""
    LiveText(terminal.stream).final("a\x1b[31mb\rc\nd\x9be\u202ef", 0)
    assert terminal.shown() == "[0:00.0] a [31mb c d e f\r\n"
    assert printable("plain 字 é") == "plain 字 é"


def test_a_dumb_terminal_is_none(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without control sequences there is nothing to change in place; a pipe is no terminal anyway."""
    assert is_terminal(terminal.stream)
    monkeypatch.setenv("TERM", "dumb")
    assert not is_terminal(terminal.stream)
    monkeypatch.setenv("TERM", "xterm")
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as piped:
        assert not is_terminal(piped)
    os.close(reading)


def test_progress_waits_and_is_not_drawn_too_often(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done within a second shows nothing; then it is drawn at most five times a second."""
    now = 100.0
    clock: Callable[[], float] = lambda: now  # noqa: E731
    monkeypatch.setattr(streamer.terminal.lines.time, "monotonic", clock)
    progress = Progress(terminal.stream)
    line = "a.mp3  0:30.0 of 1:00.0 (50 %), 25.0 t"
    for passed, heard in ((0.5, 10_000), (1.2, 30_000), (1.3, 31_000)):
        now = 100.0 + passed
        progress.update("folder/a.mp3", heard, 60_000)
    progress.clear()
    shown = terminal.shown()
    assert shown.count("\x1b[K") == 2
    assert "…" in shown
    assert columns(bare(shown)) <= len(line) + 1


def test_progress_in_words() -> None:
    """How far, how fast, how long still; without a length only what is known."""
    assert described(60_000, 600_000, 5.0) == "1:00.0 of 10:00.0 (10 %), 12.0 times real time, 0:45 left"
    assert described(60_000, None, 5.0) == "1:00.0, 12.0 times real time"
    assert described(0, 600_000, 5.0) == "0:00.0 of 10:00.0 (0 %), 0.0 times real time"
    assert described(700_000, 600_000, 1.0).endswith("(100 %), 700.0 times real time, 0:00 left")
