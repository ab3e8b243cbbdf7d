"""Measure what it costs Triton to answer a request with more messages than one.

    python scripts/measure/messages.py [--sequences 32] [--seconds 3] [--rounds 9]

starts the embedded Triton with a tiny decoupled sequence model that computes nothing and answers 320 ms of audio with
the same three events in one of three ways, drives each way in a closed loop over one stream, round after round, and
prints a Markdown table. Client and server share the machine, so only ratios within one run count.
"""

from __future__ import annotations

import argparse
import sys

from streamer.testing.load.message_cost import cost_of_messages, table
from streamer.triton import TritonError


def main() -> int:
    """Measure and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=32, help="sequences, each with one open request")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a way's turn in a round")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if not (1 <= options.sequences <= 512 and 0 < options.seconds <= 60 and 1 <= options.rounds <= 100):
        parser.error("give 1 to 512 sequences, up to 60 seconds and 1 to 100 rounds")
    try:
        found = cost_of_messages(options.sequences, options.seconds, options.rounds)
    except (TritonError, OSError) as error:
        print(f"messages: {error}", file=sys.stderr)
        return 1
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
