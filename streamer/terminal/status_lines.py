"""Lines at the bottom of a terminal that change in place, until a line that stays replaces them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TextIO

from streamer.terminal.text_width import beginning, columns, ending_at, printable, wrap

_CLEAR_LINE: Final = "\r\x1b[K"
_LINE_ABOVE: Final = "\x1b[A"
_DIM: Final = "\x1b[2m"
_NORMAL: Final = "\x1b[0m"
_FALLBACK: Final = os.terminal_size((80, 24))


def is_terminal(stream: TextIO) -> bool:
    """Return whether lines on this stream can be changed in place."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def size_of(stream: TextIO) -> os.terminal_size:
    """Return the present number of columns and lines of a terminal."""
    try:
        width, height = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return _FALLBACK
    return os.terminal_size((width or _FALLBACK.columns, height or _FALLBACK.lines))


class StatusLines:
    """Several lines that are overwritten. Each is cut to the width of the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._widths: list[int] = []  # how many columns each shown line has

    @property
    def size(self) -> os.terminal_size:
        """The number of columns and lines of the terminal."""
        return size_of(self._stream)

    def show(self, lines: Sequence[str]) -> None:
        """Draw these lines in place of the earlier ones."""
        room = self.size.columns - 1
        self._draw([beginning(printable(line), room) for line in lines])

    def clear(self) -> None:
        """Erase the lines, if there are any."""
        if self._widths:
            self._write(self._erase_codes())
            self._widths = []

    def keep(self, line: str) -> None:
        """Replace the changing lines by one that stays. It breaks between words."""
        self.clear()
        self._write("\n".join(wrap(printable(line), self.size.columns - 1)) + "\n")

    def _draw(self, lines: Sequence[str], *, styled: str | None = None) -> None:
        """Draw lines that fit. `styled` is the same text with colours."""
        self._write(self._erase_codes() + ("\n".join(lines) if styled is None else styled))
        self._widths = [columns(line) for line in lines]

    def _erase_codes(self) -> str:
        """Return the codes that erase the shown lines and put the cursor where they began."""
        # Line by line: if all lines are erased at once, tmux takes it for a new screen and keeps the old one.
        return _LINE_ABOVE.join([_CLEAR_LINE] * max(1, _rows(self._widths, self.size.columns)))

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class StatusLine(StatusLines):
    """One line that is overwritten and shows the end of a growing text, optionally with another line below it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        # https://no-color.org: the variable counts if it is not empty. Dim text is the only colour used.
        self._dims = not os.environ.get("NO_COLOR")

    def show_text(self, start: str, text: str, stable: int, below: str = "") -> None:
        """Draw `start` and as much of the end of `text` as fits. All but its first `stable` characters are dim.

        `below`: a line below it, if not empty.
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
    """Return how many rows lines of these columns take. After the window was made narrower, older lines may wrap."""
    if _keeps_rows():
        return len(lines)
    return sum(max(1, -(-line // width)) for line in lines)


def _keeps_rows() -> bool:
    """Return whether this terminal cuts lines off when it becomes narrower. Most terminals wrap them."""
    return "TMUX" not in os.environ and ("XTERM_VERSION" in os.environ or "STY" in os.environ)
