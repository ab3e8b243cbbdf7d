"""The command `streamer completion`, and what the Tab key in bash, zsh and fish asks this program.

argcomplete does it (docs/decisions/command-completion.md): what is printed for a shell runs this program at every Tab,
and the answer comes from the parsers themselves. Here is what they do not say: which values are files.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from argcomplete import autocomplete
from argcomplete.completers import BaseCompleter, DirectoriesCompleter, FilesCompleter
from argcomplete.lexers import split_line
from argcomplete.shell_integration import shellcode

EXAMPLES: Final = """\
Put the line for your shell where it is read at every start:

  bash, into ~/.bashrc                     eval "$(streamer completion bash)"
  zsh, into ~/.zshrc after compinit        eval "$(streamer completion zsh)"
  fish, once:
    streamer completion fish > ~/.config/fish/completions/streamer.fish

It needs no change when Streamer does: the shell asks the program itself."""

SHELLS: Final = ("bash", "zsh", "fish")
# What a value is, by the word that stands for it in --help.
_FILES: Final = ("FILE", "PATH", "MANIFEST")
_FOLDERS: Final = ("FOLDER",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which shell."""
    parser.add_argument("shell", choices=SHELLS, help="which shell the script is for")


def run(options: argparse.Namespace) -> int:
    """Prints the script for the shell; the exit status."""
    # Without bash's own defaults, which are files: not every value is one.
    print(shellcode(["streamer"], shell=options.shell, complete_arguments=["-o", "nospace"]))
    return 0


class Completed(Protocol):
    """A command as the command line knows it."""

    @property
    def summary(self) -> str:
        """What it does, in one sentence."""

    def load(self) -> Any:
        """Imports its module."""


def answer(known: Mapping[str, Completed], parser_of: Callable[[None], argparse.ArgumentParser]) -> None:
    """Tells the shell what the word before the cursor may become, and ends the program.

    `parser_of` makes the parser of `streamer FILE…`, which has no name.
    """
    _, _, _, words, _ = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))
    before = words[1:]
    if before and before[0] in known:
        parser = argparse.ArgumentParser(allow_abbrev=False)
        known[before[0]].load().add_arguments(parser.add_subparsers().add_parser(before[0], allow_abbrev=False))
    elif "--" in before:
        # Everything after it is a file, whatever it begins with.
        parser = argparse.ArgumentParser(prefix_chars="\0", add_help=False)
        parser.add_argument("files", nargs="*", metavar="FILE")
    else:
        parser = parser_of(None)
    commands = {} if before else {name: command.summary for name, command in known.items()}
    autocomplete(parser, always_complete_options=False, default_completer=_Values(commands))


class _Values(BaseCompleter):
    """The values of arguments that have no choices: files, folders, or nothing that could be known."""

    def __init__(self, commands: Mapping[str, str]) -> None:
        """`commands` may stand where the first file does; each with what it does."""
        self._commands = commands

    def __call__(self, *, prefix: str, action: argparse.Action, **about: Any) -> Iterable[str]:
        """The values that begin like this, perhaps with their meanings."""
        if action.metavar in _FOLDERS:
            return DirectoriesCompleter()(prefix=prefix)
        if action.metavar not in _FILES and action.type is not Path:
            return ()
        files = FilesCompleter()(prefix=prefix)
        return files if action.option_strings else {**self._commands, **dict.fromkeys(files, "")}
