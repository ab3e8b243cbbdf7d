"""Shows words on a terminal as they are recognised. The present words change in place; each final stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TextIO

from streamer.terminal.status_lines import StatusLine, size_of
from streamer.terminal.text_width import printable, wrap
from streamer.transcript import channel_prefix, short_timestamp

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
