"""A terminal for tests: a pseudo-terminal, and what a user would see on it."""

from __future__ import annotations

import os
import pty
import re
import select
import struct
import termios
from fcntl import ioctl

from streamer.commands.terminal.status_lines import columns

_SEQUENCE = re.compile(r"\x1b\[(\d*)([A-Za-z])")


class Screen:
    """Wraps long lines, and wraps them again when the width changes, as most terminals do."""

    def __init__(self, width: int, height: int = 24) -> None:
        self._outside, inside = pty.openpty()
        self._inside = inside
        self.width, self._height = width, height
        self._tell_size()
        self.stream = os.fdopen(inside, "w", encoding="utf-8")
        self.received = ""
        # A row ends because of a newline (True), or because it was full (False).
        self._rows: list[tuple[str, bool]] = [("", True)]
        self._row = self._column = 0  # the column counts characters: only the last tests have wide ones

    def shown(self) -> str:
        """The output since the last call, with its control sequences."""
        received = b""
        while select.select([self._outside], [], [], 0.05)[0]:  # a terminal delivers output in parts
            received += os.read(self._outside, 65536)
        text = received.decode()
        self.received += text
        self._draw(text)
        return text

    def lines(self) -> list[str]:
        """The visible lines, without empty ones and trailing spaces."""
        self.shown()
        return [text.rstrip() for text, _ in self._rows if text.strip()]

    def resize(self, width: int) -> None:
        """Make the window wider or narrower."""
        self.shown()
        rows: list[tuple[str, bool]] = []
        cursor = 0, 0
        begin = 0
        for end, (_, last) in enumerate(self._rows):
            if last or end == len(self._rows) - 1:
                pieces = [text for text, _ in self._rows[begin : end + 1]]
                whole = "".join(pieces)
                if begin <= self._row <= end:
                    offset = sum(map(len, pieces[: self._row - begin])) + self._column
                    # After the last column, the cursor stays in its row until another character comes.
                    row = min(offset // width, max(0, (len(whole) - 1) // width))
                    cursor = (len(rows) + row, offset - row * width)
                cut = [whole[place : place + width] for place in range(0, max(1, len(whole)), width)]
                rows += [(piece, number == len(cut) - 1) for number, piece in enumerate(cut)]
                begin = end + 1
        self._rows, (self._row, self._column) = rows, cursor
        self.width = width
        self._tell_size()

    def close(self) -> None:
        self.stream.close()
        os.close(self._outside)

    def _tell_size(self) -> None:
        ioctl(self._inside, termios.TIOCSWINSZ, struct.pack("HHHH", self._height, self.width, 0, 0))

    def _draw(self, text: str) -> None:
        while text:
            if found := _SEQUENCE.match(text):
                self._steer(int(found[1] or 1), found[2])
                text = text[found.end() :]
                continue
            character, text = text[0], text[1:]
            if character == "\r":
                self._column = 0
            elif character == "\n":
                self._next_row(newline=True)
            else:
                if columns(self._rows[self._row][0][: self._column] + character) > self.width:
                    self._next_row(newline=False)
                    self._column = 0
                line, last = self._rows[self._row]
                self._rows[self._row] = (line[: self._column] + character + line[self._column + 1 :], last)
                self._column += 1

    def _next_row(self, *, newline: bool) -> None:
        self._rows[self._row] = (self._rows[self._row][0], newline)
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append(("", True))

    def _steer(self, number: int, kind: str) -> None:
        if kind == "A":
            self._row = max(0, self._row - number)
        elif kind == "K":
            self._rows[self._row] = (self._rows[self._row][0][: self._column], True)
        else:
            assert kind == "m"  # bright and dim
