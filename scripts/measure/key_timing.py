"""Measures whether the time to refuse a guessed key reveals how similar it is to a valid one.

    python scripts/measure/key_timing.py [--keys 20] [--guesses 20000]

Guesses of several kinds are checked in turn against a file of keys. A table shows the median time of each kind with
its 95 % interval.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

from streamer.bridge.access.keys import KeyFile, make_key

SAMPLES, SAMPLE = 200, 2000


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=20, metavar="N", help="keys in the file (20)")
    parser.add_argument("--guesses", type=int, default=20_000, metavar="N", help="guesses of each kind (20000)")
    options = parser.parse_args()
    keys = [make_key(f"key{number}") for number in range(options.keys)]
    first, last = keys[0].secret, keys[-1].secret
    guesses = {
        "nothing right": "x" * len(first),
        "all but the last letter of the first key": _nearly(first),
        "all but the last letter of the last key": _nearly(last),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys"
        path.write_text("".join(f"{key.line}\n" for key in keys))
        time.sleep(2.5)  # a file that has just changed is read each time
        times = _measured(KeyFile(path), guesses, options.guesses)
    print("| guess | median µs | 95% |\n|---|---:|---|")
    for kind, taken in times.items():
        medians = sorted(statistics.median(random.choices(taken, k=SAMPLE)) / 1000 for _ in range(SAMPLES))
        low, high = medians[SAMPLES // 40], medians[-SAMPLES // 40]
        print(f"| {kind} | {statistics.median(taken) / 1000:.2f} | {low:.2f} to {high:.2f} |")


def _measured(file: KeyFile, guesses: dict[str, str], number: int) -> dict[str, list[int]]:
    times: dict[str, list[int]] = {kind: [] for kind in guesses}
    order = list(guesses)
    for _ in range(number):
        random.shuffle(order)
        for kind in order:
            began = time.perf_counter_ns()
            file.name_of(guesses[kind])
            times[kind].append(time.perf_counter_ns() - began)
    return times


def _nearly(key: str) -> str:
    return key[:-1] + ("A" if key[-1] != "A" else "B")


if __name__ == "__main__":
    main()
