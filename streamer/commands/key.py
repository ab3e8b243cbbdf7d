"""The command `streamer key`: makes an API key for the service."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from streamer.bridge.access.keys import make_key
from streamer.commands.arguments.parser import USAGE

EXAMPLES: Final = """\
The line for the file of `serve --keys` goes to standard output. The key itself goes to standard error and is shown only
once: the file has nothing but its hash.

example:
  streamer key alice >> keys          shows the key of alice, and lets her in without a restart
  streamer serve --keys keys
  STREAMER_KEY=streamer_… streamer --server wss://example.org talk.wav

To end a key, take its line out of the file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whose key it is."""
    parser.add_argument("name", metavar="NAME", help="whose key it is: letters, digits and . _ -")


def run(options: argparse.Namespace) -> int:
    """Makes a key: its line for the file on standard output, the key itself on standard error; the exit status."""
    try:
        key = make_key(options.name)
    except ValueError as error:
        print(f"streamer: {error}", file=sys.stderr)
        return USAGE
    print(f"streamer: the key of {options.name}, shown only this once:\n{key.secret}", file=sys.stderr)
    print(key.line)
    return 0
