"""Measures the processor time that the bridge takes for a second of a session's audio.

    python scripts/measure/bridge_cost.py [--sessions 0,1,32,200] [--seconds 8] [--rounds 3] [--chunk 100]
                                          [--beside TREE] [--workers N] [--serve SETTINGS]

The sessions are live and speak as fast as people do, in messages of 100 ms, to `streamer serve` with the exact model of
`streamer.testing`, which costs little. So 200 of them fit on two processors, clients included. 0 sessions are the
service at rest. `--beside` measures the code of another tree in turn, such as that of an older version:

    git worktree add --detach build/before main
    python scripts/measure/bridge_cost.py --beside build/before

`--workers N` measures so many workers beside one process, of the same code: what they share must cost little.

The table has the medians of all rounds, of the costs with the least and the most in brackets: milliseconds of
processor time for a second of audio, by process; how late partials come after the last sample that they cover; and how
late `done` comes after the last sample. A partial waits for the end of its step, so the length of messages is a part of
its delay.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from streamer.commands.arguments import count
from streamer.commands.traffic.report import machine
from streamer.commands.traffic.service import NotStarted
from workshop.load.bridge_cost import Measurement, NotMeasured, Results, Variant, busiest, measure, table

HERE = Path(__file__).resolve().parents[2]


def main() -> int:
    """Measure, and print the table. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--sessions", default="0,1,32,200", metavar="N,N…", help="sessions at a time (0,1,32,200)")
    add("--seconds", type=float, default=8.0, help="how long each number is measured (8)")
    add("--rounds", type=count, default=3, help="how often everything is measured (3)")
    add("--chunk", type=int, default=100, metavar="MS", help="the length of a message (100)")
    add("--beside", type=Path, metavar="TREE", help="a tree with other code to measure in turn")
    add("--workers", type=count, metavar="N", help="so many workers to measure in turn, beside one process")
    add("--serve", default="", metavar="SETTINGS", help="settings of `streamer serve`")
    options = parser.parse_args()
    numbers = [int(each) for each in options.sessions.split(",")]
    variants = {"this": Variant(HERE)}
    if options.beside is not None:
        variants = {"beside": Variant(options.beside.resolve()), **variants}
    if options.workers is not None:
        variants[f"{options.workers} workers"] = Variant(HERE, ("--workers", str(options.workers)))
    measurement = Measurement(numbers, options.seconds, options.chunk)
    results: Results = {}
    try:
        rounds = measure(measurement, variants, options.rounds, shlex.split(options.serve))
        for number in range(1, options.rounds + 1):
            results = next(rounds)
            print(f"bridge_cost: round {number} of {options.rounds} is measured", file=sys.stderr, flush=True)
    except (NotMeasured, NotStarted, OSError) as error:
        print(f"bridge_cost: {error}", file=sys.stderr)
        return 1
    print(f"{machine()}; rounds: {options.rounds}, {options.seconds:g} s each, messages of {options.chunk} ms")
    print(f"the clients used up to {busiest(results):.0%} of a processor\n\n{table(results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
