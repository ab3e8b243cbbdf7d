"""The Tab key: what the command suggests, and that it works in real shells."""

from __future__ import annotations

import functools
import io
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import argcomplete
import pytest
from argcomplete.finders import CompletionFinder

from streamer.base.transcript import FORMATS
from streamer.bridge.telemetry.logs import LEVELS
from streamer.commands import completion
from streamer.commands.cli import COMMANDS, parser_of, run
from tests.pseudo_terminal import Terminal

Completed = Callable[..., dict[str, str]]

# How each shell is started without anybody's settings, and how it is told about the command.
SHELLS = {
    "bash": (("--norc", "--noprofile", "-i"), "PS1='ready''> '; eval \"$(streamer completion bash)\""),
    "zsh": (("-f", "-i"), "autoload -U compinit; compinit -D -u; PS1='ready''> '; eval \"$(streamer completion zsh)\""),
    "fish": (
        ("--no-config", "-i"),
        "function fish_prompt; echo 'ready''> '; end; streamer completion fish | source",
    ),
}
# Used in place of the command for a completed line: shows its arguments.
PROGRAM = """#!/bin/sh
if [ "$1" = completion ]; then exec "{python}" -m streamer "$@"; fi
if [ -n "$_ARGCOMPLETE" ]; then "{python}" -m streamer "$@"; echo >> "{asked}"; exit; fi
printf 'ran'; printf ' <%s>' "$@"; echo ' done'
"""


@pytest.fixture
def completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Completed:
    """The answers of the command in a folder with two recordings and a folder.

    They are asked for in this process: a process for each question would import for longer. Shells ask processes below.
    """
    (tmp_path / "recordings").mkdir()
    for name in ("talk.wav", "--talk.wav"):
        (tmp_path / name).touch()
    # As fish asks: one suggestion on each line, with its meaning after a tab.
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": "fish",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_DFS": "\t",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    }

    def completed(*words: str) -> dict[str, str]:
        line = " ".join(["streamer", *words])
        answer = io.StringIO()
        with monkeypatch.context() as patch:
            for name, value in {**asked, "COMP_LINE": line, "COMP_POINT": str(len(line.encode()))}.items():
                patch.setenv(name, value)
            patch.chdir(tmp_path)
            # Otherwise it would write to descriptors of this process, and end it.
            patch.setattr(CompletionFinder, "_init_debug_stream", lambda self: None)
            answering = functools.partial(argcomplete.autocomplete, output_stream=answer, exit_method=sys.exit)
            patch.setattr(completion, "autocomplete", answering)
            with pytest.raises(SystemExit) as ended:
                run([])
        assert ended.value.code == 0
        offered = (line.partition("\t") for line in answer.getvalue().splitlines())
        return {item: meaning for item, _, meaning in offered}

    return completed


def test_commands_and_files_come_first(completed: Completed) -> None:
    """`streamer` alone offers the commands with their meanings, and recordings; after that only recordings."""
    first = completed("")
    assert {name: first[name] for name in COMMANDS} == {name: command.summary for name, command in COMMANDS.items()}
    assert set(first) - set(COMMANDS) == {"talk.wav", "--talk.wav", "recordings/"}
    assert completed("ser") == {"serve": COMMANDS["serve"].summary}
    assert set(completed("a.wav", "")) == {"talk.wav", "--talk.wav", "recordings/"}
    assert completed("a.wav", "s") == {}


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_every_option_of_every_command_is_offered(completed: Completed, name: str | None) -> None:
    """Every option in --help is offered with its meaning."""
    offered = completed(*([name] if name else []), "--")
    listed = re.findall(r"^  (-.*?)(?:  |$)", parser_of(name).format_help(), re.MULTILINE)
    assert set(re.findall(r"--[a-z-]+", " ".join(listed))) == offered.keys() != set()
    assert all(offered.values())


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("--format", ""), set(FORMATS)),
        (("--format", "js"), {"json", "jsonl"}),
        (("--format=js",), {"--format=json", "--format=jsonl"}),
        (("a.wav", "--search", "lexicon", "--paced", "--format", "s"), {"srt"}),
        (("completion", "f"), {"fish"}),
        (("--hotwords", "t"), {"talk.wav"}),
        (("--hotwords=t",), {"--hotwords=talk.wav"}),
        (("--hotword", ""), set()),
        (("evaluate", "--bundle", ""), {"recordings/"}),
        (("serve", "--keys", "t"), {"talk.wav"}),
        (("serve", "--keys=t"), {"--keys=talk.wav"}),
        (("serve", "--log-level", ""), set(LEVELS)),
        (("serve", "--sessions", ""), {"auto"}),
        (("serve", "--no-o"), {"--no-open", "--no-open-metrics"}),
        (("serve", "--port", ""), set()),
        (("evaluate", "r"), {"recordings/"}),
        (("evaluate", "--limit", "3", "a.tsv", ""), set()),
        (("key", "alice", ""), set()),
        (("key", ""), set()),
        (("--", "--ta"), {"--talk.wav"}),
    ],
)
def test_values_are_offered(completed: Completed, words: tuple[str, ...], values: set[str]) -> None:
    """Options offer their possible values; files and folders are offered where they fit, also after two dashes."""
    assert set(completed(*words)) == values


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recordings, and the command in the PATH of the shells."""
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
    """Shells that end with the test in any case."""
    terminals: list[Terminal] = []
    yield terminals
    for terminal in terminals:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_in_a_real_shell(place: Path, ended: list[Terminal], shell: str) -> None:
    """Keys are pressed in a real shell, and the resulting line is run with the intended words."""
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
        ("--format=sr\t", "<--format=srt>"),
        ("my\t", "<my first call.wav>"),
        ("serve --keys=ta\t", "<serve> <--keys=talk.wav>"),
        ("evaluate --bundle re\t", "<evaluate> <--bundle> <recordings>"),
        ("key --h\t", "<key> <--help>"),
    ):
        seen = len(terminal.shown)
        terminal.type("streamer ")
        for part in keys.split("\t")[:-1]:
            # Some shells take a Tab as text if other keys follow at once, because it may have been pasted.
            typed, asked = len(terminal.shown), answers(place)
            terminal.type(f"{part}\t")
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
    """How often the command has answered a shell."""
    asked = place / "asked"
    return len(asked.read_text()) if asked.exists() else 0
