"""Measures what it costs Triton to answer a request with several messages instead of one.

    python scripts/measure/messages.py [--sequences 32] [--seconds 3] [--rounds 9]

The script starts the embedded Triton with a tiny decoupled sequence model. The model computes nothing. It answers
320 ms of audio with the same three events, in one of three ways. In each round, each way gets requests over one stream
for some seconds, and each sequence sends its next request as soon as it has its answer. The script prints a Markdown
table. Client and server share the machine, so only ratios within one run are meaningful.
"""

from __future__ import annotations

import argparse
import sys

from streamer.testing.load.message_cost import cost_of_messages, table
from streamer.triton import TritonError


def main() -> int:
    """Measure and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=32, help="sequences, each with one request under way")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds for each way in a round")
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
