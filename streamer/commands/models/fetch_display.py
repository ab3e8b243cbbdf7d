"""Shows how far a model is fetched and unpacked: a bar on a terminal, else a line for every tenth."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, TextIO

from streamer.terminal.status_lines import StatusLines, is_terminal
from streamer.terminal.text_width import first_that_fits

_REDRAW_S: Final = 0.2
_BAR_COLUMNS: Final = 20


class FetchDisplay:
    """Shows progress on standard error. A context manager, which clears the bar at the end."""

    def __init__(self, stream: TextIO, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._lines = StatusLines(stream) if is_terminal(stream) else None
        self._blocks = (stream.encoding or "").lower().startswith("utf")
        self._name = name
        self._clock = clock
        self._what = ""
        self._began = self._drawn = 0.0
        self._first = self._tenth = 0

    def __enter__(self) -> FetchDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._lines:
            self._lines.clear()

    def progress(self, what: str, done: int, whole: int | None) -> None:
        """Show that `done` of `whole` bytes are done."""
        now = self._clock()
        if what != self._what:
            # Bytes that an earlier command fetched do not count for the speed.
            self._what, self._began, self._first, self._tenth, self._drawn = what, now, done, 0, 0.0
        if self._lines:
            if now - self._drawn >= _REDRAW_S or done == whole:
                self._drawn = now
                self._lines.show([first_that_fits(self._choices(done, whole, now), self._lines.size.columns - 1)])
        elif whole and done * 10 // whole > self._tenth:
            self._tenth = done * 10 // whole
            self.say(f"{what} {done * 100 // whole} % of {whole / 1e6:.1f} MB")

    def say(self, sentence: str) -> None:
        """Print a line that stays."""
        line = f"streamer: {self._name}: {sentence}."
        if self._lines:
            self._lines.keep(line)
        else:
            print(line, file=self._stream, flush=True)

    def _choices(self, done: int, whole: int | None, now: float) -> list[str]:
        """Return the progress in shorter and shorter forms."""
        speed = (done - self._first) / (now - self._began) if now > self._began else 0.0
        fast = f"{speed / 1e6:.1f} MB/s" if speed else ""
        if not whole:
            return [", ".join(filter(None, [f"{self._what} {done / 1e6:.1f} MB", fast]))]
        share = min(1.0, done / whole)
        seconds = round((whole - done) / speed) if speed else None
        remaining = "" if seconds is None else f"{seconds // 60}:{seconds % 60:02} left"
        amount = f"{done / 1e6:.1f} of {whole / 1e6:.1f} MB"
        percent = f"{share * 100:3.0f} %"
        full, empty = ("█", "░") if self._blocks else ("#", ".")
        filled = int(share * _BAR_COLUMNS)
        bar = f"{self._what}  {full * filled}{empty * (_BAR_COLUMNS - filled)}  {percent}"
        return [
            ", ".join(filter(None, parts))
            for parts in ((bar, amount, fast, remaining), (bar, remaining), (percent, remaining), (percent,))
        ]
