"""The command `streamer completion`, and the answers to the Tab key in bash, zsh and fish.

This uses argcomplete (docs/decisions/command-completion.md). The printed script runs this program at every Tab, and the
answer comes from the parsers. This module adds which values are files, because the parsers do not know it.
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
Put the line for your shell where the shell reads it at every start:

  bash, into ~/.bashrc                     eval "$(streamer completion bash)"
  zsh, into ~/.zshrc after compinit        eval "$(streamer completion zsh)"
  fish, once:
    streamer completion fish > ~/.config/fish/completions/streamer.fish

It needs no change after an update of Streamer, because the shell asks the program itself."""

SHELLS: Final = ("bash", "zsh", "fish")
# The words in --help for values that are files or folders.
_FILES: Final = ("FILE", "PATH", "MANIFEST")
_FOLDERS: Final = ("FOLDER",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer completion`."""
    parser.add_argument("shell", choices=SHELLS, help="which shell the script is for")


def run(options: argparse.Namespace) -> int:
    """Print the script for the shell. Returns the exit status."""
    # Without bash's own defaults: they are files, and not every value is a file.
    print(shellcode(["streamer"], shell=options.shell, complete_arguments=["-o", "nospace"]))
    return 0


class CompletableCommand(Protocol):
    """A command that the Tab key can complete."""

    @property
    def summary(self) -> str:
        """One sentence about the command."""

    def load(self) -> Any:
        """Import its module."""


def answer(
    all_commands: Mapping[str, CompletableCommand], parser_of: Callable[[None], argparse.ArgumentParser]
) -> None:
    """Print the completions of the word before the cursor, and end the program.

    `parser_of(None)` makes the parser of `streamer FILE…`.
    """
    _, _, _, words, _ = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))
    before = words[1:]
    if before and before[0] in all_commands:
        parser = argparse.ArgumentParser(allow_abbrev=False)
        all_commands[before[0]].load().add_arguments(parser.add_subparsers().add_parser(before[0], allow_abbrev=False))
    elif "--" in before:
        # Everything after it is a file, even if it begins with a dash.
        parser = argparse.ArgumentParser(prefix_chars="\0", add_help=False)
        parser.add_argument("files", nargs="*", metavar="FILE")
    else:
        parser = parser_of(None)
    commands = {} if before else {name: command.summary for name, command in all_commands.items()}
    autocomplete(parser, always_complete_options=False, default_completer=_Values(commands))


class _Values(BaseCompleter):
    """The values of arguments without choices: files, folders, or nothing."""

    def __init__(self, commands: Mapping[str, str]) -> None:
        """`commands`: their names, which may stand in place of the first file, and their summaries."""
        self._commands = commands

    def __call__(self, *, prefix: str, action: argparse.Action, **about: Any) -> Iterable[str]:
        """Return the values that begin with this prefix, perhaps with their meanings."""
        if action.metavar in _FOLDERS:
            return DirectoriesCompleter()(prefix=prefix)
        if action.metavar not in _FILES and action.type is not Path:
            return ()
        files = FilesCompleter()(prefix=prefix)
        return files if action.option_strings else {**self._commands, **dict.fromkeys(files, "")}
