"""The command `streamer completion`: the Tab key in bash, zsh and fish.

What it prints for a shell asks this program at every Tab, and the answer comes from the parsers themselves: it never
tells of options that are not there, or leaves one out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

EXAMPLES: Final = """\
Put the line for your shell where it is read at every start:

  bash, into ~/.bashrc                     eval "$(streamer completion bash)"
  zsh, into ~/.zshrc after compinit        eval "$(streamer completion zsh)"
  fish, once:
    streamer completion fish > ~/.config/fish/completions/streamer.fish

It needs no change when Streamer does: the shell asks the program itself."""

# What a value is, by the word that stands for it in --help.
_FILES: Final = ("FILE", "PATH", "MANIFEST")
_FOLDERS: Final = ("FOLDER",)
_LONGEST: Final = 60

_BASH: Final = """\
_streamer() {
    local line kind='' current=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    while IFS= read -r line; do
        if [ -z "$kind" ]; then kind=$line; else COMPREPLY+=("${line%%$'\\t'*}"); fi
    done < <("${COMP_WORDS[0]}" completion --words="$(printf '=%s\\n' "${COMP_WORDS[@]:1:COMP_CWORD}")" 2>/dev/null)
    case $kind in
        files) set -- -f ;;
        folders) set -- -d ;;
        *) return ;;
    esac
    compopt -o filenames 2>/dev/null
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "$1" -- "$current")
}
complete -F _streamer streamer
"""

_ZSH: Final = """\
#compdef streamer
_streamer() {
    local -a found items
    found=("${(@f)$("${words[1]}" completion --words="$(printf '=%s\\n' "${(@)words[2,CURRENT]}")" 2>/dev/null)}")
    items=("${(@)${(@)found[2,-1]}//:/\\\\:}")
    items=("${(@)items/$'\\t'/:}")
    (( $#found > 1 )) && _describe streamer items
    case $found[1] in
        files) _files ;;
        folders) _files -/ ;;
    esac
}
if [ "${funcstack[1]}" = _streamer ]; then _streamer "$@"; else compdef _streamer streamer; fi
"""

_FISH: Final = """\
function __streamer_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    test (count $current) -eq 0; and set current ''
    set -l words (printf '=%s\\n' $before[2..-1] $current | string collect)
    set -l found ($before[1] completion --words="$words" 2>/dev/null)
    test (count $found) -gt 1; and printf '%s\\n' $found[2..-1]
    switch "$found[1]"
        case files
            __fish_complete_path "$current"
        case folders
            __fish_complete_directories "$current"
    end
end
complete -c streamer -f -a '(__streamer_complete)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@dataclass(frozen=True)
class Completion:
    """What a word may become: `kind` is files, folders or none; items have their meaning beside them."""

    kind: str
    items: Sequence[tuple[str, str]] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shell, or the words that one asks about."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("shell", nargs="?", choices=SCRIPTS, help="the shell that is to know the command")
    # A line for each, with a sign in front: the last may be empty, and shells drop empty lines at the end.
    what.add_argument("--words", type=_lines, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Prints the script, or what the last of the words may become."""
    if options.words is None:
        print(SCRIPTS[options.shell], end="")
        return 0
    completion = completed(options.words)
    print(completion.kind)
    for item, meaning in completion.items:
        print(f"{item}\t{meaning}" if meaning else item)
    return 0


def completed(words: Sequence[str]) -> Completion:
    """What the last of these words, which follow the name of the program, may become."""
    # Here, because this module is one of the commands.
    from streamer.cli import COMMANDS, parser_of

    *before, word = words or [""]
    name = before[0] if before and before[0] in COMMANDS else None
    parser = parser_of(name)
    given = before[1:] if name else before
    if (action := _awaiting(parser, given)) is not None:
        return _values(action, word)
    option, equals, value = word.partition("=")
    if equals and (action := _options(parser).get(option)) is not None and "--" not in given:
        found = _values(action, value)
        return Completion("none", [(f"{option}={item}", meaning) for item, meaning in found.items])
    if word.startswith("-") and "--" not in given:
        return Completion("none", list(_offered(parser, word)))
    completion = _of_positional(parser, given, word)
    if before:
        return completion
    commands = [(name, command.summary) for name, command in COMMANDS.items() if name.startswith(word)]
    return Completion(completion.kind, [*commands, *completion.items])


def _lines(text: str) -> list[str]:
    return [line.removeprefix("=") for line in text.split("\n")]


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {name: action for action in parser._actions for name in action.option_strings}


def _awaiting(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Action | None:
    """The option whose value comes next, if the last word is one."""
    if not given or "--" in given[:-1]:
        return None
    action = _options(parser).get(given[-1])
    return action if action is not None and action.nargs != 0 else None


def _offered(parser: argparse.ArgumentParser, word: str) -> Iterator[tuple[str, str]]:
    """The options that begin like this."""
    for action in parser._actions:
        for name in action.option_strings:
            if name.startswith(word) and action.help != argparse.SUPPRESS:
                yield name, _meaning(action)


def _of_positional(parser: argparse.ArgumentParser, given: Sequence[str], word: str) -> Completion:
    actions = [action for action in parser._actions if not action.option_strings and action.help != argparse.SUPPRESS]
    standing = _standing(parser, given)
    for action in actions:
        if action.nargs == "*" or standing == 0:
            return _values(action, word)
        standing -= 1
    return Completion("none")


def _standing(parser: argparse.ArgumentParser, given: Sequence[str]) -> int:
    """How many of the words are neither options nor values of them."""
    options, count, skip = _options(parser), 0, False
    for word in given:
        if skip:
            skip = False
        elif word in options:
            skip = options[word].nargs != 0
        elif not word.startswith("-") or word == "-":
            count += 1
    return count


def _values(action: argparse.Action, word: str) -> Completion:
    if action.choices is not None:
        return Completion("none", [(str(each), "") for each in action.choices if str(each).startswith(word)])
    if action.metavar in _FOLDERS:
        return Completion("folders")
    return Completion("files" if action.metavar in _FILES or action.type is Path else "none")


def _meaning(action: argparse.Action) -> str:
    """The beginning of an option's help."""
    first = " ".join((action.help or "").split()).partition(";")[0].partition(". ")[0].replace("%%", "%")
    return first if len(first) <= _LONGEST else first[: _LONGEST - 1].rpartition(" ")[0] + "…"
