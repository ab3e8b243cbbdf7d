"""Lines at the bottom of a terminal that change in place: the columns of text, the lines, and words in them."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

from streamer.base.text import printable
from streamer.base.transcript import channel_prefix, short_timestamp
from streamer.commands.terminal.printing import stream_for_codes

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
        self._stream = stream_for_codes(stream)
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
        start, firm, loose = map(printable, (start, text[:stable], text[stable:]))
        text, stable = firm + loose, len(firm)
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


# Text in the columns of a terminal: how wide it is, how much of it fits, and where a line breaks.


def columns(text: str) -> int:
    """Return how many columns of a terminal the text takes at most.

    Terminals disagree about joined characters, such as an emoji with a skin tone. The largest width is counted, because
    a line that is cut a little early is better than one that wraps.
    """
    return sum(_columns(character) for character in text)


def beginning(text: str, room: int) -> str:
    """Return the text, or the part of its beginning that fits, with an ellipsis."""
    if columns(text) <= room:
        return text
    return text[: _length_that_fits(text, room - 1)] + "…"


def ending(text: str, room: int) -> str:
    """Return the text, or the part of its end that fits, with an ellipsis."""
    cut = ending_at(text, room)
    return "…" + text[cut:] if cut else text


def ending_at(text: str, room: int) -> int:
    """Return where the end that fits begins in the text. If the text is cut, a column is left for the ellipsis."""
    if columns(text) <= room:
        return 0
    return len(text) - _length_that_fits(text[::-1], room - 1)


def first_that_fits(choices: Iterable[str], room: int) -> str:
    """Return the first of these texts that fits. If none fits, the beginning of the last one."""
    text = ""
    for text in choices:
        if columns(text) <= room:
            return text
    return beginning(text, room)


def wrap(text: str, room: int) -> list[str]:
    """Return the text in lines that fit. They break between words; only a word that is wider than a line is divided."""
    lines, line, width_so_far = [], "", 0
    for word in text.split():
        gap = 1 if line else 0
        while columns(word) > room:
            # Text without spaces, such as Chinese, continues in the line that was begun.
            length = _length_that_fits(word, room - width_so_far - gap) or (0 if line else 1)
            lines.append(f"{line}{' ' * gap if length else ''}{word[:length]}")
            word, line, width_so_far, gap = word[length:], "", 0, 0
        width = columns(word)
        if line and width_so_far + gap + width > room:
            lines.append(line)
            line, width_so_far, gap = "", 0, 0
        line, width_so_far = f"{line}{' ' * gap}{word}", width_so_far + gap + width
    return [*lines, line] if line or not lines else lines


def _length_that_fits(text: str, room: int) -> int:
    """Return how many characters at the beginning fit."""
    for index, character in enumerate(text):
        room -= _columns(character)
        if room < 0:
            return index
    return len(text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


# Shows words on a terminal as they are recognised. The present words change in place; each final stays.

# In a narrower terminal, the lines of a final begin below its time instead of beside it.
_NARROW: Final = 40


class LiveWords:
    """The words of one session on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = StatusLine(stream)

    @property
    def columns(self) -> int:
        """The width of the terminal."""
        return self._line.size.columns

    def partial(self, event: Mapping[str, Any], start: str = "", below: str = "") -> None:
        """Show the text so far, after `start` and above `below`. Words that may still change are dim."""
        channel = channel_prefix(event)
        self._show(start, channel + event["text"], len(channel) + event["stable"], event["start_ms"], below)

    def silence(self, heard_ms: int, start: str = "", below: str = "") -> None:
        """Show that nothing was recognised since the last final."""
        self._show(start, "", 0, heard_ms, below)

    def final(self, event: Mapping[str, Any]) -> None:
        """Write a final, which stays, in place of the present words."""
        self._line.clear()
        self._stream.write(final_lines(event, self._stream))
        self._stream.flush()

    def clear(self) -> None:
        """Erase the words that did not become final."""
        self._line.clear()

    def _show(self, start: str, text: str, stable: int, start_ms: int, below: str = "") -> None:
        self._line.show_text(f"{start}{_time(start_ms)}", text, stable, below)


def final_lines(final: Mapping[str, Any], stream: TextIO) -> str:
    """Return a final with its time, in lines that break between words at the width of this terminal."""
    start = _time(final["start_ms"])
    width = size_of(stream).columns
    indent = " " * len(start) if width >= _NARROW else ""
    text, room = channel_prefix(final) + final["text"], width - 1 - len(indent)
    if not indent:
        start, text = "", start + text
    lines = [line for dictated in text.split("\n") for line in wrap(printable(dictated), room)]
    return start + f"\n{indent}".join(lines) + "\n"


def _time(start_ms: int) -> str:
    return f"[{short_timestamp(start_ms)}] "
