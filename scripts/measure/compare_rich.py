"""Compares our changing lines in a terminal with those of rich.

    python scripts/measure/compare_rich.py columns            # the real width of texts in this terminal, and each guess
    python scripts/measure/compare_rich.py cost               # the time of the import, and of drawing eight rows
    python scripts/measure/compare_rich.py board ours|rich    # draws for 20 s; make the window narrower meanwhile

Run `columns` and `board` in the terminal that you want to test. Only this script needs `pip install rich wcwidth`.
docs/decisions/terminal-display.md has the results.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import ioctl
from importlib import import_module
from typing import Any, TextIO

from streamer.terminal.progress_board import ProgressBoard
from streamer.terminal.progress_text import Progress, Tally
from streamer.terminal.text_width import columns
from streamer.terminal.transcription_display import REDRAW_S, TranscriptionDisplay

TEXTS = {
    "Latin with combining accents": "e\u0301te\u0301",
    "Chinese, Japanese": "字幕と言葉",
    "Korean": "한국어",
    "Korean in single letters": "\u1112\u1161\u11ab",
    "Thai": "ภาษาไทยน้ำ",
    "Hindi": "हिन्दी",
    "Arabic": "العربية",
    "Hebrew with points": "שָׁלוֹם",
    "emoji": "👍",
    "emoji with a colour of skin": "👍🏽",
    "emoji, three joined": "👩\u200d👩\u200d👧",
    "emoji made of a sign": "❤\ufe0f",
    "flag": "🇩🇪",
    "keycap": "1\ufe0f\u20e3",
}
NAMES = ("हिन्दी समाचार.wav", "👍🏽 family.mp3", "字幕と言葉の長い名前のファイル.flac", "monday.wav")
ROWS = 8
REDRAWS = 200
IMPORTS = 9
BOARD_S = 20
IMPORTED = {
    "ours": "streamer.terminal.transcript_output",
    "rich": "rich.progress",
    "wcwidth": "wcwidth",
}
PROBE = """
import importlib, sys, time
import streamer.client, streamer.commands.batch
for name in [name for name in sys.modules if name.startswith("streamer.terminal")]:
    del sys.modules[name]
began, before = time.perf_counter(), len(sys.modules)
importlib.import_module(sys.argv[1])
print((time.perf_counter() - began) * 1e3, len(sys.modules) - before)
"""


class RichBoard(TranscriptionDisplay):
    """Draws the content of our board with rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column

        console = Console(file=stream)
        one_line: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}
        self._progress = RichProgress(
            TextColumn("{task.description}", markup=False, table_column=Column(max_width=24, **one_line)),
            BarColumn(10),
            TaskProgressColumn(),
            TextColumn("{task.fields[words]}", markup=False, table_column=Column(ratio=1, **one_line)),
            console=console,
            expand=True,
        )
        by_hand: dict[str, Any] = dict.fromkeys(("redirect_stdout", "redirect_stderr", "auto_refresh"), False)
        self._live = Live("", console=console, transient=True, **by_hand)
        self._live.start()
        self._tasks: dict[int, Any] = {}
        self._began = self._drawn = time.monotonic()

    def begin(self, index: int, name: str, duration_ms: int | None) -> None:
        self._tasks[index] = self._progress.add_task(name, total=duration_ms, words="")

    def words(self, index: int, partial: Any) -> None:
        self._progress.update(self._tasks[index], words=partial["text"])

    def heard(self, index: int, audio_ms: int) -> None:
        self._progress.update(self._tasks[index], completed=audio_ms)
        if time.monotonic() - self._drawn >= REDRAW_S:
            self.draw(audio_ms)

    def draw(self, audio_ms: int) -> None:
        """Draw at once, without a limit on how often."""
        from rich.console import Group
        from rich.text import Text

        self._drawn = time.monotonic()
        progress = Progress(audio_ms, self._drawn - self._began, 60_000)
        whole = Text(progress.of_all(Tally(len(self._tasks)), 1000), no_wrap=True, overflow="ellipsis")
        self._live.update(Group(self._progress, whole), refresh=True)

    def close(self) -> bool:
        self._live.stop()
        return False


def main() -> int:
    """Run one of the comparisons. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("columns", "cost", "board"))
    parser.add_argument("whose", nargs="?", choices=("ours", "rich"), default="ours")
    options = parser.parse_args()
    if options.what == "board":
        show_board(options.whose)
    else:
        for line in table_of_columns() if options.what == "columns" else table_of_costs():
            print(line)
    return 0


def table_of_columns() -> Iterator[str]:
    """Yield a row for each text: the columns that it takes, and the columns that each library expects."""
    rich, wcwidth = import_module("rich.cells").cell_len, import_module("wcwidth").wcswidth
    taken = taken_columns(list(TEXTS.values()))
    yield "| text | this terminal | ours | rich | wcwidth |"
    yield "|---|---|---|---|---|"
    for (name, text), width in zip(TEXTS.items(), taken, strict=True):
        yield f"| {name} | {width} | {columns(text)} | {rich(text)} | {wcwidth(text)} |"


def taken_columns(texts: list[str]) -> list[int]:
    """Measure how far the cursor moves for each of these texts, in the terminal on standard input."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        return [_cursor_after(text) for text in texts]
    finally:
        os.write(0, b"\r\x1b[K")
        termios.tcsetattr(0, termios.TCSANOW, before)


def _cursor_after(text: str) -> int:
    os.write(0, f"\r\x1b[K{text}\x1b[6n".encode())
    answer = b""
    while not answer.endswith(b"R"):
        if not select.select([0], [], [], 2)[0]:
            raise TimeoutError("this terminal does not report the position of its cursor")
        answer += os.read(0, 32)
    found = re.search(rb";(\d+)R$", answer)
    assert found is not None
    return int(found[1]) - 1


def table_of_costs() -> Iterator[str]:
    """Print the cost of drawing, and the least cost of the import in a client that has imported everything else."""
    for name, module in IMPORTED.items():
        command = [sys.executable, "-c", PROBE, module]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(IMPORTS)]
        times, modules = zip(*(map(float, run.stdout.split()) for run in runs), strict=True)
        yield f"import {name}: {min(times):.1f} ms, {modules[0]:.0f} modules"
    for name in ("ours", "rich"):
        with terminal() as (stream, written):
            cpu_ms = draw_many(name, stream)
            yield f"draw {name}: {cpu_ms:.2f} ms of CPU time, {written() / REDRAWS:.0f} bytes"


def draw_many(whose: str, stream: TextIO) -> float:
    """Return the CPU time of drawing a board, in milliseconds."""
    board = ProgressBoard(stream, Tally(ROWS), words=True) if whose == "ours" else RichBoard(stream)
    for index in range(ROWS):
        board.begin(index, f"recording-{index}.wav", 60_000)
        board.words(index, {"text": "word " * 30})
    board.heard(0, 1000)
    began = time.process_time()
    for _ in range(REDRAWS):
        if isinstance(board, RichBoard):
            board.draw(1000)
        else:
            board.draw()
    spent = time.process_time() - began
    board.close()
    return spent / REDRAWS * 1e3


@contextmanager
def terminal() -> Iterator[tuple[TextIO, Callable[[], int]]]:
    """Provide a pseudo-terminal that is read all the time, and the number of bytes that it got."""
    outside, inside = pty.openpty()
    ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    total = 0

    def read() -> None:
        nonlocal total
        while True:
            try:
                total += len(os.read(outside, 65536))
            except OSError:  # closed
                return

    def written() -> int:
        time.sleep(0.1)  # until it is read
        return total

    threading.Thread(target=read, daemon=True).start()
    with os.fdopen(inside, "w", encoding="utf-8") as stream:
        yield stream, written


def show_board(whose: str) -> None:
    """Show four recordings that are not finished."""
    print("before the board")
    board = ProgressBoard(sys.stderr, Tally(12), words=True) if whose == "ours" else RichBoard(sys.stderr)
    for index, name in enumerate(NAMES):
        board.begin(index, name, 60_000)
    for step in range(BOARD_S * 10):
        for index, name in enumerate(NAMES):
            board.words(index, {"text": f"{name} {step} " * 12})
            board.heard(index, 300 * step)
        time.sleep(0.1)
    board.close()
    print("behind the board")


if __name__ == "__main__":
    sys.exit(main())
