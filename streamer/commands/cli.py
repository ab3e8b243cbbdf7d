"""The command line. `streamer FILE…` transcribes recordings; other commands have names.

Each command is a module with EXAMPLES, `add_arguments` and `run`. A module is loaded only when its command is used, so
--help is quick, and a server can start before the rest is imported.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from streamer import __version__
from streamer.base.text import did_you_mean
from streamer.commands.arguments import USAGE, Parser
from streamer.commands.terminal.printing import make_output_printable

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
_FULL: Final = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))
# Commands of other programs, and what a user types here instead.
_FOREIGN_COMMANDS: Final = {"help": "--help", "version": "--version", "transcribe": "FILE…", "microphone": "mic"}
TAB_VARIABLE: Final = "_ARGCOMPLETE"  # a shell sets it when the user presses the Tab key


class CommandModule(Protocol):
    """The parts that the module of a command must have."""

    EXAMPLES: str

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""

    @staticmethod
    def run(options: argparse.Namespace) -> int:
        """Run the command. Returns the exit status."""


@dataclass(frozen=True)
class Command:
    """A command: its module, and one sentence about what it does."""

    module: str
    summary: str

    def load(self) -> CommandModule:
        """Import the module."""
        return cast(CommandModule, import_module(self.module))


FILES: Final = Command(
    "streamer.commands.transcribe", "Transcribes recordings, and shows the words as they are recognised."
)
COMMANDS: Final = {
    "mic": Command("streamer.commands.mic", "Transcribes what you say into a microphone while you speak."),
    "doctor": Command("streamer.commands.doctor", "Shows what works on this machine, and how to repair the rest."),
    "serve": Command("streamer.commands.serve", "Runs the service until a signal ends it."),
    "models": Command(
        "streamer.commands.models",
        "Lists, fetches, imports and removes public models, and chooses the default.",
    ),
    "completion": Command(
        "streamer.commands.completion",
        "Prints the script for completion with the Tab key in bash, zsh or fish.",
    ),
    "key": Command("streamer.commands.key", "Makes an API key for the service."),
    "sessions": Command("streamer.commands.sessions", "Lists the live sessions of a running service, and ends one."),
    "usage": Command("streamer.commands.usage", "Shows what each key has used in a day and in its month."),
    "roll": Command("streamer.commands.roll", "Replaces the model of a running service without interrupting sessions."),
    "plan": Command(
        "streamer.commands.plan",
        "Recommends how many instances, slots and sessions this machine should serve, and says where memory goes.",
    ),
    "evaluate": Command(
        "streamer.commands.evaluate",
        "Recognises recordings with known texts, and reports how accurate and how fast the service is.",
    ),
    "load": Command(
        "streamer.commands.load",
        "Runs more and more live sessions, and reports how soon words come and what the service uses.",
    ),
}


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command line. Returns the exit status."""
    _open_descriptors()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if TAB_VARIABLE in os.environ:
        from streamer.commands.completion import answer

        answer(COMMANDS, parser_of)
    _prepare_streams()
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except SystemExit as end:
        # After --help, too, the output may be incomplete.
        try:
            sys.stdout.flush()
        except OSError as error:
            return _report_unwritable_output(error)
        raise end
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        return _report_unwritable_output(error)


def _run(arguments: list[str]) -> int:
    if arguments and (suggestion := _likely_command(arguments[0])):
        return _refuse(f"there is neither a command nor a file '{arguments[0]}'{suggestion}")
    if arguments and arguments[0] in COMMANDS:
        parser = parser_of(arguments[0])
        return COMMANDS[arguments[0]].load().run(parser.read(arguments[1:]))
    options = _read_with_files(parser_of(None), arguments)
    for word in options.files:
        if word in COMMANDS and not Path(word).exists() and "--" not in arguments:
            return _refuse(f"'{word}' is a command: write it first, as in streamer {word}; see streamer {word} --help.")
    return FILES.load().run(options)


def parser_of(name: str | None) -> Parser:
    """Return the parser of this command, or of `streamer FILE…` if there is no name."""
    command = FILES if name is None else COMMANDS[name]
    module = command.load()
    parser = Parser(
        prog=f"streamer {name}" if name else "streamer",
        usage=None if name else "streamer [options] FILE…\n       streamer COMMAND [options]",
        description=command.summary,
        epilog=module.EXAMPLES if name else f"{_command_list()}\n\n{module.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    if name is None:
        parser.add_argument("--version", action="version", version=f"streamer {__version__}")
    return parser


def _likely_command(word: str) -> str:
    """Return the end of a message about a first word that resembles a command. Empty for a command or a file."""
    if word in COMMANDS or not word.isalpha() or Path(word).exists():
        return ""
    if command := _FOREIGN_COMMANDS.get(word.lower()):
        return f"; did you mean streamer {command}?"
    return did_you_mean(word.lower(), COMMANDS, "streamer {}")


def _refuse(sentence: str) -> int:
    """Print why the command line is wrong, and return the exit status."""
    print(f"streamer: {sentence}", file=sys.stderr)
    return USAGE


def _report_unwritable_output(error: OSError) -> int:
    """Report that standard output cannot be written, and return the exit status."""
    _discard_output()
    with suppress(OSError):
        print(f"streamer: standard output cannot be written: {error.strerror}.", file=sys.stderr)
    return 1


def _discard_output() -> None:
    """Discard further output. Otherwise Python would report the error once more when it flushes at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _command_list() -> str:
    """Return all commands, one on a line."""
    lines = [f"  {'streamer FILE…':22}{FILES.summary}"]
    lines += [f"  {f'streamer {name}':22}{command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(["commands (each has a --help with examples):", *lines])


def _read_with_files(parser: Parser, arguments: Sequence[str]) -> argparse.Namespace:
    # Everything after `--` is a file, whatever it looks like. argparse gets this wrong when options may stand anywhere.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.read(arguments[:end], intermixed=True)
    options.files += arguments[end + 1 :]
    return options


def _prepare_streams() -> None:
    """Make sure that no output fails because a stream is closed or a name is not UTF-8, or steers the terminal."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    make_output_printable()


def _open_descriptors() -> None:
    """Open missing standard descriptors: otherwise, files that are opened later would get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number, which is this one
