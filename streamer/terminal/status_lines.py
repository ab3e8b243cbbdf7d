"""Lines at the bottom of a terminal that change in place, until something takes their place that stays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TextIO

from streamer.terminal.text_width import beginning, columns, ending_at, printable, wrapped

_CLEAR_LINE: Final = "\r\x1b[K"
_LINE_ABOVE: Final = "\x1b[A"
_DIM: Final = "\x1b[2m"
_NORMAL: Final = "\x1b[0m"
_FALLBACK: Final = os.terminal_size((80, 24))


def is_terminal(stream: TextIO) -> bool:
    """Whether lines on it can be changed in place."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def size_of(stream: TextIO) -> os.terminal_size:
    """Columns and lines of a terminal, as they are now."""
    try:
        width, height = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return _FALLBACK
    return os.terminal_size((width or _FALLBACK.columns, height or _FALLBACK.lines))


class StatusLines:
    """Several lines that are overwritten; each is cut to the width of the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: list[int] = []  # the columns of each line that stands there

    @property
    def size(self) -> os.terminal_size:
        """Columns and lines that there are."""
        return size_of(self._stream)

    def show(self, lines: Sequence[str]) -> None:
        """Draws these lines in the place of the earlier ones."""
        room = self.size.columns - 1
        self._draw([beginning(printable(line), room) for line in lines])

    def clear(self) -> None:
        """Takes the lines away, if there are any."""
        if self._shown:
            self._write(self._erased())
            self._shown = []

    def keep(self, line: str) -> None:
        """Writes what stays, in the place of the lines that change; it breaks between words."""
        self.clear()
        self._write("\n".join(wrapped(printable(line), self.size.columns - 1)) + "\n")

    def _draw(self, lines: Sequence[str], *, styled: str | None = None) -> None:
        """Draws lines that fit; `styled` is the same with colours."""
        self._write(self._erased() + ("\n".join(lines) if styled is None else styled))
        self._shown = [columns(line) for line in lines]

    def _erased(self) -> str:
        """What takes away the lines that stand there, and leaves the cursor where they began."""
        # Line by line: tmux takes the erasing of all lines at once for a new screen, and keeps the old one.
        return _LINE_ABOVE.join([_CLEAR_LINE] * max(1, _rows(self._shown, self.size.columns)))

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class StatusLine(StatusLines):
    """One line that is overwritten and shows the end of a text that grows, perhaps with another one below it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        # https://no-color.org: set and not empty. Dimming is all the colour there is.
        self._dims = not os.environ.get("NO_COLOR")

    def show_text(self, start: str, text: str, stable: int, below: str = "") -> None:
        """Draws `start` and as much of the end of `text` as fits; all but its first `stable` characters dim.

        `below` is a line of its own, if it is not empty.
        """
        start, text = printable(start), printable(text)
        cut = ending_at(text, self.size.columns - 1 - columns(start))
        firm, loose = text[cut:stable], text[max(cut, stable) :]
        if cut:
            firm, loose = ("…" + firm, loose) if firm else ("", "…" + loose)
        dim, normal = (_DIM, _NORMAL) if loose and self._dims else ("", "")
        under = [beginning(printable(below), self.size.columns - 1)] if below else []
        styled = "\n".join([f"{start}{firm}{dim}{loose}{normal}", *under])
        self._draw([f"{start}{firm}{loose}", *under], styled=styled)


def _rows(lines: Sequence[int], width: int) -> int:
    """How many rows lines of so many columns take: those from before the window was made narrower may wrap now."""
    if _keeps_rows():
        return len(lines)
    return sum(max(1, -(-line // width)) for line in lines)


def _keeps_rows() -> bool:
    """Whether this is one of the few terminals that cut lines off when they get narrower, instead of wrapping them."""
    return "TMUX" not in os.environ and ("XTERM_VERSION" in os.environ or "STY" in os.environ)
