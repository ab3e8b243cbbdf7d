"""The Tab key: what it offers, and that it does so in real shells."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.cli import COMMANDS, parser_of
from streamer.commands.completion import completed
from streamer.transcript import FORMATS
from tests.pseudo_terminal import Terminal

# How each shell is started without anybody's settings, and told of the command.
SHELLS = {
    "bash": (("--norc", "--noprofile", "-i"), "PS1='ready''> '; eval \"$(streamer completion bash)\""),
    "zsh": (("-f", "-i"), "autoload -U compinit; compinit -D -u; PS1='ready''> '; eval \"$(streamer completion zsh)\""),
    "fish": (
        ("--no-config", "-i"),
        "function fish_prompt; echo 'ready''> '; end; streamer completion fish | source",
    ),
}
# Stands for the command where a completed line is run: shows what it was given.
PROGRAM = """#!/bin/sh
if [ "$1" = completion ]; then "{python}" -m streamer "$@"; echo >> "{asked}"; exit; fi
printf 'ran'; printf ' <%s>' "$@"; echo ' done'
"""


def items(*words: str) -> list[str]:
    """What is offered for the last of these words."""
    return [item for item, _ in completed(words).items]


def test_commands_and_files_come_first() -> None:
    """`streamer` alone: each command with what it does, or a recording."""
    assert items("") == list(COMMANDS)
    assert completed([""]).kind == "files"
    assert dict(completed(["ser"]).items) == {"serve": COMMANDS["serve"].summary}
    assert (completed(["a.wav", "b"]).kind, items("a.wav", "s")) == ("files", [])


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_every_option_of_every_command_is_offered(name: str | None) -> None:
    """Those of the parsers, all of them, each with the beginning of its help."""
    before = [name] if name else []
    offered = dict(completed([*before, "-"]).items)
    for action in parser_of(name)._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            assert set(action.option_strings) <= offered.keys()
            assert offered[action.option_strings[0]]
    assert max(map(len, offered.values())) <= 60
    assert not any("\t" in meaning or "\n" in meaning for meaning in offered.values())


def test_values_are_offered() -> None:
    """Those that an option can have; files and folders where it wants such."""
    assert items("--format", "") == list(FORMATS)
    assert items("--format", "js") == ["json", "jsonl"]
    assert items("--format=js") == ["--format=json", "--format=jsonl"]
    assert items("a.wav", "--search", "le", "--paced", "--format", "s") == ["srt"]
    assert items("completion", "f") == ["fish"]
    assert completed(["--hotwords", ""]).kind == "files"
    assert completed(["--hotword", ""]).kind == "none"
    assert completed(["evaluate", "--bundle", ""]).kind == "folders"
    assert completed(["serve", "--keys", ""]).kind == "files"
    assert completed(["evaluate", ""]).kind == "files"
    assert completed(["evaluate", "--limit", "3", "a.tsv", ""]).kind == "none"
    assert completed(["key", "alice", ""]).kind == "none"


def test_what_follows_two_dashes_is_a_file() -> None:
    """Also if it looks like an option."""
    assert (completed(["--", "--fo"]).kind, items("--", "--fo")) == ("files", [])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recordings in it, and the command on the way of the shells."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "bin").mkdir()
    (folder / "bin" / "streamer").write_text(PROGRAM.format(python=sys.executable, asked=folder / "asked"))
    (folder / "bin" / "streamer").chmod(0o755)
    (folder / "here").mkdir()
    for name in ("talk.wav", "my first call.wav", "recordings/a.wav"):
        (folder / "here" / name).parent.mkdir(exist_ok=True)
        (folder / "here" / name).touch()
    return folder


@pytest.fixture
def ended() -> Iterator[list[Terminal]]:
    """Shells that end with the test, whatever comes of it."""
    terminals: list[Terminal] = []
    yield terminals
    for terminal in terminals:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_in_a_real_shell(place: Path, ended: list[Terminal], shell: str) -> None:
    """Keys are pressed, and the line that comes of it is run with the words that were meant."""
    path = shutil.which(shell)
    if path is None and not os.environ.get("CI"):
        pytest.skip(f"{shell} is not installed: make system")
    assert path is not None
    arguments, setup = SHELLS[shell]
    environment = {**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}", "HOME": str(place), "LC_ALL": "C.UTF-8"}
    ended.append(terminal := Terminal(command=[path, *arguments], environment=environment, width=200))
    terminal.type(f"cd {place}/here; {setup}\r")
    terminal.watch("ready> ")
    for keys, words in (
        ("eva\t", "<evaluate>"),
        ("serve --log-f\tjs\t", "<serve> <--log-format> <json>"),
        ("--format sr\tta\t", "<--format> <srt> <talk.wav>"),
        ("my\t", "<my first call.wav>"),
        ("evaluate --bundle re\t", "<evaluate> <--bundle> <recordings>"),
        ("key --\t", "<key> <--help>"),
    ):
        seen = len(terminal.shown)
        terminal.type("streamer ")
        for part in keys.split("\t")[:-1]:
            # Some shells take a Tab for a mere character when other keys follow at once, as in text that is pasted.
            typed, asked = len(terminal.shown), answers(place)
            terminal.type(f"{part}\t")
            terminal.settle(typed)
            while answers(place) == asked:
                time.sleep(0.05)
            terminal.settle(typed)
        terminal.type("\r")
        terminal.watch(" done", seen)
        assert f"ran {words} done" in terminal.shown[seen:].replace("/>", ">")
        terminal.watch("ready> ", terminal.shown.rindex(" done"))
    terminal.type("exit\r")
    terminal.status()


def answers(place: Path) -> int:
    """How often the command has told a shell what there is."""
    return len((place / "asked").read_text())
