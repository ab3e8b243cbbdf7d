"""The command line: `streamer FILE…` transcribes, other commands have names of their own.

Each command is a module with EXAMPLES, `add_arguments` and `run`, which is loaded only when that command is asked for:
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
from streamer.commands.arguments.parser import USAGE, Parser
from streamer.settings.nearest import did_you_mean

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
_FULL: Final = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))
# What other programs have commands for.
_MEANT: Final = {"help": "--help", "version": "--version", "transcribe": "FILE…", "microphone": "mic"}
TAB_VARIABLE: Final = "_ARGCOMPLETE"  # a shell asks what a word may become


class CommandModule(Protocol):
    """What a command's module has."""

    EXAMPLES: str

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """What it accepts."""

    @staticmethod
    def run(options: argparse.Namespace) -> int:
        """What it does; the exit status."""


@dataclass(frozen=True)
class Command:
    """A command: its module, and what it does in one sentence."""

    module: str
    summary: str

    def load(self) -> CommandModule:
        """Imports the module."""
        return cast(CommandModule, import_module(self.module))


FILES: Final = Command(
    "streamer.commands.transcribe", "Writes down what is said in recordings, while it is still being read."
)
COMMANDS: Final = {
    "mic": Command("streamer.commands.mic", "Writes down what is said into a microphone, while it is said."),
    "doctor": Command("streamer.commands.doctor", "Says what works on this machine and how to mend what does not."),
    "serve": Command("streamer.commands.serve", "Runs the service until it is told to stop."),
    "completion": Command(
        "streamer.commands.completion",
        "Prints the script that makes the Tab key complete all this, in bash, zsh or fish.",
    ),
    "key": Command("streamer.commands.key", "Makes an API key for the service."),
    "roll": Command(
        "streamer.commands.roll", "Lets another model take over in a service that runs; no session is cut."
    ),
    "evaluate": Command(
        "streamer.commands.evaluate",
        "Lets a service hear recordings with references, and reports how well and how soon it understood.",
    ),
}


def run(argv: Sequence[str] | None = None) -> int:
    """Runs one command line; the exit status."""
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
        _let_go_of_output()
        return BROKEN_PIPE
    except SystemExit as end:
        # After --help, too, something may not have been written.
        try:
            sys.stdout.flush()
        except OSError as error:
            return _unwritten(error)
        raise end
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        return _unwritten(error)


def _run(arguments: list[str]) -> int:
    if arguments and (likely := _likely_command(arguments[0])):
        return _wrong(f"there is neither a command nor a file '{arguments[0]}'{likely}")
    if arguments and arguments[0] in COMMANDS:
        parser = parser_of(arguments[0])
        return COMMANDS[arguments[0]].load().run(parser.read(arguments[1:]))
    options = _with_files(parser_of(None), arguments)
    for word in options.files:
        if word in COMMANDS and not Path(word).exists() and "--" not in arguments:
            return _wrong(f"'{word}' is a command: write it first, as in streamer {word}; see streamer {word} --help.")
    return FILES.load().run(options)


def parser_of(name: str | None) -> Parser:
    """The parser of this command; of `streamer FILE…` without a name."""
    command = FILES if name is None else COMMANDS[name]
    module = command.load()
    parser = Parser(
        prog=f"streamer {name}" if name else "streamer",
        usage=None if name else "streamer [options] FILE…\n       streamer COMMAND [options]",
        description=command.summary,
        epilog=module.EXAMPLES if name else f"{_listed()}\n\n{module.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    if name is None:
        parser.add_argument("--version", action="version", version=f"streamer {__version__}")
    return parser


def _likely_command(word: str) -> str:
    """The end of a sentence about a first word that is neither a command nor a file, if a command is like it."""
    if word in COMMANDS or not word.isalpha() or Path(word).exists():
        return ""
    if meant := _MEANT.get(word.lower()):
        return f"; did you mean streamer {meant}?"
    return did_you_mean(word.lower(), COMMANDS, "streamer {}")


def _wrong(sentence: str) -> int:
    print(f"streamer: {sentence}", file=sys.stderr)
    return USAGE


def _unwritten(error: OSError) -> int:
    """Says that standard output is full."""
    _let_go_of_output()
    with suppress(OSError):
        print(f"streamer: standard output cannot be written: {error.strerror}.", file=sys.stderr)
    return 1


def _let_go_of_output() -> None:
    """Python would complain once more when it flushes at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _listed() -> str:
    """All commands, a line each."""
    lines = [f"  {'streamer FILE…':22}{FILES.summary}"]
    lines += [f"  {f'streamer {name}':22}{command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(["commands (each has a --help with examples):", *lines])


def _with_files(parser: Parser, arguments: Sequence[str]) -> argparse.Namespace:
    # What follows `--` is a file whatever it looks like; argparse mistakes it when options may stand anywhere.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.read(arguments[:end], intermixed=True)
    options.files += arguments[end + 1 :]
    return options


def _prepare_streams() -> None:
    """Nothing that is written may fail because of a closed stream or a name that is not UTF-8."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _open_descriptors() -> None:
    """Who starts a daemon may close the standard descriptors: what is opened later must not get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free is this one
