"""The arguments that several commands take: kinds of values, the key, the model, and where transcripts go."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from streamer.base.address import DEFAULT_PORT, SERVER_VARIABLE, addresses_of, is_ready, websocket_url
from streamer.base.codes import ErrorCode
from streamer.base.limits import DEFAULT_MODEL
from streamer.base.text import as_sentence, did_you_mean
from streamer.base.transcript import FORMATS
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.repository import asr_repository, models_to_serve
from streamer.commands.service import EMBEDDED
from streamer.commands.settings.kinds import COUNT, PORT, Kind, Whole, WrongValueError
from streamer.commands.settings.served_models import folder_error, unknown_model
from streamer.commands.terminal.transcript_files import APPEND, OVERWRITE, REFUSE, SKIP
from streamer.models.library import SHIPPED, LibraryError, ModelLibrary
from streamer.models.readers import whisper_models

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


def add_socket_arguments(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the arguments that name a service of this machine. `default`: which one is asked without them."""
    parser.add_argument("--port", type=port, help=f"the port of the service ({default})")
    parser.add_argument(
        "--control", type=Path, metavar="PATH", help="the socket, if the service was started with --control"
    )


def add_server_argument(parser: argparse._ActionsContainer, purpose: str, *, several: bool = True) -> None:
    """Add `--server` to a command that uses a service. `purpose`: the beginning of its help.

    `several`: its sessions may go on at another address of the service.
    """
    of_several = ", or several of its bridges with commas between" if several else ""
    parser.add_argument(
        "--server",
        metavar="URL",
        type=server if several else one_server,
        default=os.environ.get(SERVER_VARIABLE) or None,
        help=f"{purpose}, as ws://host:port or host:port{of_several}; '{EMBEDDED}' starts one for this command. "
        f"The default is {SERVER_VARIABLE}, or a service on port {DEFAULT_PORT} of this machine.",
    )


def server(text: str) -> str:
    """Read the address of a service, several addresses of it, or the word for an embedded one."""
    return ",".join(map(one_server, addresses_of(text)))


def one_server(text: str) -> str:
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


# The key that a command sends to a service: where it comes from, and the message if it is missing.

KEY_VARIABLE: Final = "STREAMER_KEY"


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
    if code != ErrorCode.UNAUTHORIZED:
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


# The model that a command asks a service for, or that its own service gets.


@dataclass(frozen=True)
class ModelChoice:
    """A model of a service by its public name, or the folder of one that an embedded service loads."""

    name: str = ""
    folder: Path | None = None


def add_model_argument(parser: argparse._ActionsContainer) -> None:
    """Add `--model` to a command that uses a service."""
    parser.add_argument(
        "--model",
        type=_read_choice,
        metavar="NAME|FOLDER",
        help="another model: one of this machine (`streamer models`) or the folder of a public model, for which a "
        "service of its own is started; or the public name of one that a service has (docs/how-to/models.md)",
    )


def model_choice(options: argparse.Namespace) -> ModelChoice:
    """Return the model that the user chose. A name means a model of this machine, unless --server names a service.

    TritonError if there is no such model, or if it cannot be used.
    """
    choice: ModelChoice = getattr(options, "model", None) or ModelChoice()
    alone = getattr(options, "engine", False)  # the bare engine uses no service
    server = None if alone else getattr(options, "server", None)
    if not choice.name or server not in (None, EMBEDDED):
        return choice
    if choice.name == SHIPPED:
        return ModelChoice() if alone else ModelChoice(folder=asr_repository() / MODEL)
    library = ModelLibrary()
    folder = library.find(choice.name)
    if folder is not None:
        try:
            library.read(choice.name)
        except LibraryError as error:
            raise TritonError(f"{error}; `streamer models get {choice.name}` fetches it again.") from None
        return ModelChoice(folder=folder)
    if choice.name in (own := whisper_models()):
        return ModelChoice(folder=own[choice.name])
    if alone or choice.name == DEFAULT_MODEL or (server is None and is_ready()):
        return choice
    if choice.name in models_to_serve(asr_repository()):
        return ModelChoice(folder=asr_repository() / choice.name)
    raise TritonError(as_sentence(unknown_model(choice.name, library)))


def model_folder(options: argparse.Namespace) -> Path | None:
    """Return the folder of the model that the user chose. None if it is the model of a service."""
    return model_choice(options).folder


def public_folder(text: str) -> Path:
    """Return the folder of a public model, from its path or, for a model of this machine, from its name."""
    path = Path(text)
    if "/" in text or path.is_dir():
        return path
    return ModelLibrary().find(text) or whisper_models().get(text) or path


def _read_choice(text: str) -> ModelChoice:
    path = Path(text)
    if not text or ("/" not in text and not path.is_dir()):
        return ModelChoice(name=text)
    if reason := folder_error(path):
        raise argparse.ArgumentTypeError(reason)
    return ModelChoice(folder=path)


# The arguments for the transcript: its formats, where it goes, and what happens if it already exists.


def add_output_arguments(parser: argparse.ArgumentParser, where: str, *, skip: bool = False) -> None:
    """Add the arguments. `where`: the help for --output. `skip`: whether to add --skip-existing."""
    add = parser.add_argument
    add(
        "--format",
        choices=_FORMATS,
        help=f"format of the transcript ({FORMATS[0]}, or what the ending of the output says); several, such as "
        "srt,json, give a file each",
    )
    add("-o", "--output", metavar="PATH", help=where)
    existing = parser.add_mutually_exclusive_group().add_argument
    parser.set_defaults(existing=REFUSE)
    for option, value, text in (
        ("--append", APPEND, "add to the end of an existing file"),
        ("--overwrite", OVERWRITE, "replace an existing file, once the new one is complete"),
        ("--skip-existing", SKIP, "skip recordings whose transcripts already exist"),
        ("--resume", SKIP, "the same; unfinished transcripts are continued, as they are without it"),
    ):
        if skip or value != SKIP:
            existing(option, dest="existing", action="store_const", const=value, help=text)


class _Formats:
    """The names of the formats, and any combination of them with commas between them."""

    def __iter__(self) -> Iterator[str]:
        return iter(FORMATS)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and all(name in FORMATS for name in value.split(","))


_FORMATS: Final = _Formats()
