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
                self.error(f"unknown option {name}{self._likely(name[2:])}")
        parse = self.parse_known_intermixed_args if intermixed else self.parse_known_args
        options, rest = parse(arguments, namespace)
        for word in rest:
            if word != "--":
                unknown = word.startswith("-") and word in before
                likely = self._likely(word[1:].partition("=")[0]) if len(word) > 2 else ""
                self.error(f"unknown option {word}{likely}" if unknown else f"unexpected argument '{word}'")
        return options

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        end = " See" if message.endswith("?") else "; see"
        self.exit(USAGE, f"streamer: {message.rstrip('.')}{end} {self.prog} --help.\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse does, with the likely one of the choices."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            likely = did_you_mean(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{likely}") from None

    def _likely(self, name: str) -> str:
        """What may have been meant by an option that there is not: another one, or a value of one."""
        for action in self._actions:
            if action.option_strings and action.choices and name in action.choices:
                return f"; did you mean {action.option_strings[-1]} {name}?"
        known = [option[2:] for option in self._options if option.startswith("--")]
        return did_you_mean(name, known, "--{}")

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
