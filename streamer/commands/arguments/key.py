"""The key that a command shows to a service: where it comes from, and what is said where it is missing."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, Final

KEY_VARIABLE: Final = "STREAMER_KEY"
_UNAUTHORIZED: Final = "unauthorized"


def add_key_argument(parser: argparse._ActionsContainer) -> None:
    """`--key-file`, for a command that uses a service."""
    parser.add_argument(
        "--key-file",
        action=_TakeKey,
        type=_key_in,
        metavar="FILE",
        help=f"a file with the key for the service, instead of {KEY_VARIABLE}",
    )


def said_of(code: str, message: str) -> str:
    """What a service said of a session, with what the command line can do about it."""
    if code != _UNAUTHORIZED:
        return message
    if not os.environ.get(KEY_VARIABLE):
        return f"The service needs a key: put it in {KEY_VARIABLE}, or name a file that holds it with --key-file."
    return f"{message} The key came from {KEY_VARIABLE} or --key-file."


def _key_in(name: str) -> str:
    try:
        lines = Path(name).read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise argparse.ArgumentTypeError(f"{name} cannot be read: {reason}.") from None
    if len(lines) != 1:
        raise argparse.ArgumentTypeError(f"{name} must hold one key and nothing else, not {len(lines)} words.")
    return lines[0]


class _TakeKey(argparse.Action):
    """Puts the key where the client looks for it, and where what is shown is rid of it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Takes the key of the file."""
        os.environ[KEY_VARIABLE] = values
