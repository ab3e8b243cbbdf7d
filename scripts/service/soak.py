"""Uses a service for long, and tells whether it is at the end what it was at the beginning.

    python scripts/service/soak.py long [MANIFEST] [--minutes 60] [--pace N] [--server URL]
    python scripts/service/soak.py faults [--minutes 10] [--seed N] [--tritons 2] [--every 6]

`long` is one session of an hour: does memory grow, do results come later, do times drift, do words change? `faults` is
thousands of sessions while clients vanish and Tritons die: is a word lost, doubled, or told to another session? Both
print a table; the exit status is 0 only if everything holds. Linux only.
"""

from __future__ import annotations

import argparse
import sys

from streamer.testing.soak import faulted, long_session

COMMANDS = {"long": long_session, "faults": faulted}


def main() -> int:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="long|faults")
    for name, module in COMMANDS.items():
        described = module.__doc__ or ""
        command = commands.add_parser(
            name,
            help=described.splitlines()[0],
            description=described,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    options = parser.parse_args()
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
