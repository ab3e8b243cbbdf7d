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
    """Reports a mistake in a command line in one sentence, without the usage before it."""

    def __init__(self, **about: Any) -> None:
        self._options: list[str] = []  # before __init__, because argparse adds -h in it
        super().__init__(**about)

    def add_argument(self, *names: Any, **about: Any) -> argparse.Action:
        """Add an argument, and remember the option for suggestions."""
        return self._remember(super().add_argument(*names, **about))

    def add_argument_group(self, *about: Any, **more: Any) -> argparse._ArgumentGroup:
        """Add a group, and remember the options that are added to it."""
        group = super().add_argument_group(*about, **more)
        exclusive = group.add_mutually_exclusive_group

        def add_exclusive(**kind: Any) -> argparse._MutuallyExclusiveGroup:
            inner = exclusive(**kind)
            return self._remember_options_of(inner, inner.add_argument)

        group.add_mutually_exclusive_group = add_exclusive  # type: ignore[method-assign]
        return self._remember_options_of(group, group.add_argument)

    def add_mutually_exclusive_group(self, **about: Any) -> argparse._MutuallyExclusiveGroup:
        """Add a group, and remember the options that are added to it."""
        group = super().add_mutually_exclusive_group(**about)
        return self._remember_options_of(group, group.add_argument)

    def read(
        self, arguments: Sequence[str], namespace: argparse.Namespace | None = None, *, intermixed: bool = False
    ) -> argparse.Namespace:
        """Read a command line. `intermixed`: options may stand between the arguments of one list."""
        # Checked before argparse, whose message would be about a consequence of the unknown option.
        before = arguments[: arguments.index("--") if "--" in arguments else None]
        for word in before:
            name = word.partition("=")[0]
            if name.startswith("--") and " " not in word and name not in self._options:
                self.error(f"unknown option {name}{self._suggestion(name[2:])}")
        parse = self.parse_known_intermixed_args if intermixed else self.parse_known_args
        options, rest = parse(arguments, namespace)
        for word in rest:
            if word != "--":
                unknown = word.startswith("-") and word in before
                suggestion = self._suggestion(word[1:].partition("=")[0]) if len(word) > 2 else ""
                self.error(f"unknown option {word}{suggestion}" if unknown else f"unexpected argument '{word}'")
        return options

    def error(self, message: str) -> NoReturn:
        """Print the message and end the program."""
        end = " See" if message.endswith("?") else "; see"
        self.exit(USAGE, f"streamer: {message.rstrip('.')}{end} {self.prog} --help.\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Suggest the most similar choice in the error."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            suggestion = did_you_mean(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{suggestion}") from None

    def _suggestion(self, name: str) -> str:
        """Return a suggestion for an unknown option: another option, or an option with this value."""
        for action in self._actions:
            if action.option_strings and action.choices and name in action.choices:
                return f"; did you mean {action.option_strings[-1]} {name}?"
        names = [option[2:] for option in self._options if option.startswith("--")]
        return did_you_mean(name, names, "--{}")

    def _remember_options_of(self, group: _Group, add: Callable[..., argparse.Action]) -> _Group:
        group.add_argument = lambda *names, **about: self._remember(add(*names, **about))  # type: ignore[method-assign]
        return group

    def _remember(self, action: argparse.Action) -> argparse.Action:
        self._options += action.option_strings
        return action


def add_server_argument(parser: argparse._ActionsContainer, purpose: str) -> None:
    """Add `--server` to a command that uses a service. `purpose`: the beginning of its help."""
    parser.add_argument(
        "--server",
        metavar="URL",
        type=server,
        default=os.environ.get(SERVER_VARIABLE) or None,
        help=f"{purpose}, as ws://host:port or host:port; '{EMBEDDED}' starts one for this command. "
        f"The default is {SERVER_VARIABLE}, or a service on port {DEFAULT_PORT} of this machine.",
    )


def server(text: str) -> str:
    """Read the address of a service, or the word for an embedded one."""
    if text == EMBEDDED:
        return text
    try:
        return websocket_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def argument(kind: Kind) -> Callable[[str], Any]:
    """Return a function that reads a value of this kind from a command line."""

    def read(text: str) -> Any:
        try:
            return kind.of_text(text)
        except WrongValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


port = argument(PORT)
count = argument(COUNT)
number = argument(Whole(0))
