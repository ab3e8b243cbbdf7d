"""The parser of a command line, and the kinds of arguments that several commands take."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeVar

from streamer.address import DEFAULT_PORT, SERVER_VARIABLE, websocket_url
from streamer.chosen_service import EMBEDDED
from streamer.settings.kinds import COUNT, PORT, Kind, Whole, WrongValueError
from streamer.settings.nearest import did_you_mean

USAGE: Final = 2
_Group = TypeVar("_Group", bound=argparse._ArgumentGroup)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one sentence, without the usage in front of it."""

    def __init__(self, **about: Any) -> None:
        self._options: list[str] = []  # of the argument -h, too, which argparse adds
        super().__init__(**about)

    def add_argument(self, *names: Any, **about: Any) -> argparse.Action:
        """As argparse does, and remembers the option for those who misspell it."""
        return self._remembered(super().add_argument(*names, **about))

    def add_argument_group(self, *about: Any, **more: Any) -> argparse._ArgumentGroup:
        """As argparse does, and remembers the options that are added to it."""
        group = super().add_argument_group(*about, **more)
        return self._remembering(group, group.add_argument)

    def add_mutually_exclusive_group(self, **about: Any) -> argparse._MutuallyExclusiveGroup:
        """As argparse does, and remembers the options that are added to it."""
        group = super().add_mutually_exclusive_group(**about)
        return self._remembering(group, group.add_argument)

    def read(
        self, arguments: Sequence[str], namespace: argparse.Namespace | None = None, *, intermixed: bool = False
    ) -> argparse.Namespace:
        """What a command line asks for; `intermixed`: options may stand between arguments that belong together."""
        # Before argparse reads them, which would complain first of what an unknown option might have stood for.
        before = arguments[: arguments.index("--") if "--" in arguments else None]
        for word in before:
            name = word.partition("=")[0]
            if name.startswith("--") and " " not in word and name not in self._options:
                known = [option[2:] for option in self._options if option.startswith("--")]
                self.error(f"unknown option {name}{did_you_mean(name[2:], known, '--{}')}")
        parse = self.parse_known_intermixed_args if intermixed else self.parse_known_args
        options, rest = parse(arguments, namespace)
        for word in rest:
            if word != "--":
                unknown = word.startswith("-") and word in before
                self.error(f"unknown option {word}" if unknown else f"unexpected argument '{word}'")
        return options

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        end = " See" if message.endswith("?") else "; see"
        self.exit(USAGE, f"streamer: {message.rstrip('.')}{end} {self.prog} --help.\n")

    def _remembering(self, group: _Group, add: Callable[..., argparse.Action]) -> _Group:
        group.add_argument = lambda *names, **about: self._remembered(add(*names, **about))  # type: ignore[method-assign]
        return group

    def _remembered(self, action: argparse.Action) -> argparse.Action:
        self._options += action.option_strings
        return action


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


def argument(kind: Kind) -> Callable[[str], Any]:
    """Reads a value of this kind from a command line."""

    def read(text: str) -> Any:
        try:
            return kind.of_text(text)
        except WrongValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


port = argument(PORT)
count = argument(COUNT)
number = argument(Whole(0))
