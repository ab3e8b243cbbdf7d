"""The command `streamer key`: makes an API key for the service."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from streamer.base.text import as_sentence
from streamer.bridge.access.keys import make_key
from streamer.commands.arguments import USAGE

EXAMPLES: Final = """\
The line for the file of `serve --keys` goes to standard output. The key itself goes to standard error and is shown only
once, because the file contains only its hash.

example:
  streamer key alice >> keys          shows the key of alice; the service accepts it without a restart
  streamer serve --keys keys
  STREAMER_KEY=streamer_… streamer --server wss://example.org talk.wav

To revoke a key, remove its line from the file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer key`."""
    parser.add_argument("name", metavar="NAME", help="the name of its owner: letters, digits and . _ -")


def run(options: argparse.Namespace) -> int:
    """Make a key: print its line for the file on standard output, and the key itself on standard error."""
    try:
        key = make_key(options.name)
    except ValueError as error:
        print(f"streamer: {as_sentence(error)}", file=sys.stderr)
        return USAGE
    print(f"streamer: the key of {options.name}, shown only this once:\n{key.secret}", file=sys.stderr)
    print(key.line)
    return 0
