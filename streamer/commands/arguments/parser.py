"""The parser of a command line, and the kinds of arguments that several commands take."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any, Final, NoReturn

from streamer.address import DEFAULT_PORT, SERVER_VARIABLE, websocket_url
from streamer.chosen_service import EMBEDDED

USAGE: Final = 2


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one sentence, without the usage in front of it."""

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        self.exit(USAGE, f"streamer: {message.rstrip('.')}; see {self.prog} --help.\n")


def add_server_argument(parser: argparse._ActionsContainer, purpose: str) -> None:
    """`--server`, for a command that has a service do this."""
    parser.add_argument(
        "--server",
        metavar="URL",
        type=server,
        default=os.environ.get(SERVER_VARIABLE) or None,
        help=f"{purpose}, as ws://host:port or host:port; '{EMBEDDED}' starts one for this command. "
        f"Without it that of {SERVER_VARIABLE} is used, or a service on port {DEFAULT_PORT} of this machine.",
    )


def server(text: str) -> str:
    """The address of a service, or the word for one of our own."""
    if text == EMBEDDED:
        return text
    try:
        return websocket_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def port(text: str) -> int:
    """A port; 0 stands for any free one."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is no port: it is a number from 0 to 65535.")
    return int(text)


def count(text: str) -> int:
    """How many of something that has to be there."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of them: it is 1 or more.")
    return int(text)


def number(text: str) -> int:
    """How many of something, perhaps none."""
    return 0 if text.isdecimal() and int(text) == 0 else count(text)


def within(least: float, most: float, kind: Callable[[str], Any] = float) -> Callable[[str], Any]:
    """A number between these two, or one of them."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not from {least:.10g} to {most:.10g}")
        return value

    return read
