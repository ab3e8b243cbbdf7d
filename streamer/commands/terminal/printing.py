"""The one way to standard output and standard error: whatever is printed has no characters that a terminal would obey.

Names of files, words of a model and sentences of a service come from strangers. With escape sequences in them, a
terminal would write the clipboard, move the cursor or hide lines. So the streams themselves are replaced: `print`, a
traceback and the messages of argparse all go through here. Only what draws lines in place gets past it, with text that
it has made printable itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

from streamer.base.text import printable_lines


class PrintableStream:
    """A text stream that replaces control characters by spaces and drops invisible ones. All else is the stream's."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text without such characters."""
        self.stream.write(printable_lines(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write these lines in the same way."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def make_output_printable() -> None:
    """Replace standard output and standard error, unless that has been done. Call this again if one was exchanged."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, PrintableStream):
            setattr(sys, name, cast(TextIO, PrintableStream(stream)))


def stream_for_codes(stream: TextIO) -> TextIO:
    """Return the stream that takes the codes of a terminal as they are, for a caller that makes its text printable."""
    return stream.stream if isinstance(stream, PrintableStream) else stream
