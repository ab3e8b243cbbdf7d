"""Measures how much of a processor decoders take from a process of the service that wants all of it.

    python scripts/measure/decoder_turns.py [--decoders 1] [--seconds 3] [--rounds 3]

All compute on one processor, each in a session of its own, as the service starts them. The decoders do so by turns
without a priority, with a priority as processes alone (nice), and with all that a decoder does. The table says how much
processor time each decoder had for each second of the service, whatever else this processor did, and how late the
service came to its turn when it slept for 5 ms while the decoders computed (which other work delays, too).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streamer.audio.decoder_process import NICENESS, Turns

SLEEP_S: Final = 0.005
WARM_UP_S: Final = 0.3
LATE: Final = 0.95  # this share of the wake-ups came earlier
WAYS: Final[dict[str, Callable[[], object]]] = {
    "no priority": lambda: None,
    "nice alone": lambda: os.nice(NICENESS),
    "as a decoder": Turns,
}


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decoders", type=int, default=1, help="how many compute beside the service (1)")
    parser.add_argument("--seconds", type=float, default=3.0, help="the length of each turn (3)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each kind (3)")
    parser.add_argument("--decode-as", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.decode_as:
        return _decode(options.decode_as)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if os.getsid(0) != os.getpid():  # the service has a session of its own, too
        arguments = [sys.executable, __file__, *sys.argv[1:]]
        return subprocess.run(arguments, start_new_session=True, check=False).returncode
    shares: dict[str, list[float]] = {way: [] for way in WAYS}
    delays: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            with _decoders(way, options.decoders) as decoders:
                shares[way].append(_share(decoders, options.seconds))
                delays[way] += _delays(options.seconds)
    print("| the decoders | time of each, per second of the service | service late by, p95 |\n|---|---:|---:|")
    for way in WAYS:
        late = sorted(delays[way])[int(LATE * len(delays[way]))]
        print(f"| {way} | {sum(shares[way]) / options.rounds:.2f} s | {late * 1000:.1f} ms |")
    return 0


def _decode(way: str) -> int:
    WAYS[way]()
    print("ready", flush=True)
    while True:
        pass


@contextmanager
def _decoders(way: str, number: int) -> Iterator[list[int]]:
    command = [sys.executable, __file__, "--decode-as", way]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, text=True) for _ in range(number)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(WARM_UP_S)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _share(decoders: Sequence[int], seconds: float) -> float:
    """Compute for this time. Return how long each decoder had the processor for each second of this process."""
    until, own, theirs = time.monotonic() + seconds, time.process_time(), _used(decoders)
    while time.monotonic() < until:
        pass
    return (_used(decoders) - theirs) / len(decoders) / (time.process_time() - own)


def _used(processes: Sequence[int]) -> float:
    """Return the processor time of these processes."""
    nanoseconds = [int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) for process in processes]
    return sum(nanoseconds) / 1e9


def _delays(seconds: float) -> list[float]:
    """Sleep again and again for this time. Return how late this process came to its turn."""
    delays, until = [], time.monotonic() + seconds
    while (before := time.monotonic()) < until:
        time.sleep(SLEEP_S)
        delays.append(time.monotonic() - before - SLEEP_S)
    return delays


if __name__ == "__main__":
    sys.exit(main())
