"""Measures how long the Tab key takes: the time to complete some command lines, each in its own process."""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

# The second command line completes a file in this folder.
PLACE: Final = Path(__file__).parents[2] / "audio_samples"
LINES: Final = ("streamer ", "streamer ta", "streamer --format js", "streamer serve --", "streamer serve --keys ")


def main() -> int:
    """Measure and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--times", type=int, default=25, metavar="N", help="how often each command line is completed (25)"
    )
    options = parser.parse_args()
    print("| line | processor ms | at least ms | median ms |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for line in LINES:
            taken = [answered(line, Path(folder) / "answer") for _ in range(options.times)]
            walls, processors = [wall for wall, _ in taken], [processor for _, processor in taken]
            print(f"| `{line}` | {min(processors):.0f} | {min(walls):.0f} | {statistics.median(walls):.0f} |")
    return 0


def answered(line: str, answer: Path) -> tuple[float, float]:
    """Return the milliseconds until the answer, and the milliseconds of processor time."""
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_SHELL": "zsh"}
    environment = {**os.environ, **asked, "_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "streamer"]
    subprocess.run(command, cwd=PLACE, env=environment, stderr=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert answer.read_text(encoding="utf-8"), line
    answer.unlink()
    return 1000 * wall, 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    raise SystemExit(main())
