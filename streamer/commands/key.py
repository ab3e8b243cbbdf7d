"""The command `streamer key`: makes an API key for the service."""

from __future__ import annotations

import argparse
import re
import sys
import time
from datetime import datetime, timedelta, timezone
from typing import Final

from streamer.base.text import as_sentence
from streamer.bridge.access.keys import Role, make_key
from streamer.commands.arguments import USAGE

EXAMPLES: Final = """\
The line for the file of `serve --keys` goes to standard output. The key itself goes to standard error and is shown only
once, because the file contains only its hash.

examples:
  streamer key alice >> keys          shows the key of alice; the service accepts it without a restart
  streamer key guest --expires 30d >> keys         for 30 days; or --expires 2027-01-31, to the end of that day (UTC)
  streamer key operator --role admin >> keys       also sees and ends the sessions of all keys: docs/how-to/sessions.md
  streamer serve --keys keys
  STREAMER_KEY=streamer_… streamer --server wss://example.org talk.wav

To revoke a key, remove its line from the file. Sessions that are open go on, also those of a key that expires."""

_FROM_NOW: Final = re.compile(r"([1-9]\d{0,4})([dh])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer key`."""
    parser.add_argument("name", metavar="NAME", help="the name of its owner: letters, digits and . _ -")
    parser.add_argument(
        "--role",
        choices=[str(role) for role in Role],
        default=str(Role.USE),
        help=f"what it is for: {Role.ADMIN} also sees and ends sessions of all keys ({Role.USE})",
    )
    parser.add_argument(
        "--expires",
        type=_moment,
        metavar="WHEN",
        help="when it ends: a day such as 2027-01-31 (its end, in UTC), or 90d or 12h from now (never)",
    )


def run(options: argparse.Namespace) -> int:
    """Make a key: print its line for the file on standard output, and the key itself on standard error."""
    try:
        expires = {} if options.expires is None else {"expires_at": options.expires}
        key = make_key(options.name, Role(options.role), **expires)
    except ValueError as error:
        print(f"streamer: {as_sentence(error)}", file=sys.stderr)
        return USAGE
    print(f"streamer: the key of {options.name}, shown only this once:\n{key.secret}", file=sys.stderr)
    print(key.line)
    return 0


def _moment(text: str) -> float:
    """Return a time in seconds since 1970."""
    now = time.time()
    if span := _FROM_NOW.fullmatch(text):
        return now + int(span[1]) * (86400 if span[2] == "d" else 3600)
    try:
        end = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=timezone.utc) + timedelta(days=1)
        moment = end.timestamp()
    except (ValueError, OverflowError) as error:
        why = f"must be a day such as 2027-01-31, or 90d or 12h from now, not '{text}'"
        raise argparse.ArgumentTypeError(why) from error
    if moment <= now:
        raise argparse.ArgumentTypeError(f"must be in the future, unlike {text}")
    return moment
