"""The key that a command sends to a service: where it comes from, and the message if it is missing."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, Final

KEY_VARIABLE: Final = "STREAMER_KEY"
_UNAUTHORIZED: Final = "unauthorized"


def add_key_argument(parser: argparse._ActionsContainer) -> None:
    """Add `--key-file` to a command that uses a service."""
    parser.add_argument(
        "--key-file",
        action=_TakeKey,
        type=_key_in,
        metavar="FILE",
        help=f"a file with the key for the service, instead of {KEY_VARIABLE}",
    )


def error_text(code: str, message: str) -> str:
    """Return the message about an error of a service, with advice if the key is the problem."""
    if code != _UNAUTHORIZED:
        return message
    if not os.environ.get(KEY_VARIABLE):
        return f"The service needs a key: put it into {KEY_VARIABLE}, or into a file for --key-file."
    return f"{message} The key came from {KEY_VARIABLE} or --key-file."


def _key_in(name: str) -> str:
    try:
        lines = Path(name).read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise argparse.ArgumentTypeError(f"{name} cannot be read: {reason}.") from None
    if len(lines) != 1:
        raise argparse.ArgumentTypeError(f"{name} must contain one key and nothing else, not {len(lines)} words.")
    return lines[0]


class _TakeKey(argparse.Action):
    """Puts the key into the environment, where the client looks for it and where secrets are removed from output."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the key."""
        os.environ[KEY_VARIABLE] = values
