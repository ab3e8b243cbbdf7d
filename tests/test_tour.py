"""The tour of the documentation, typed line by line by a user who reads nothing else."""

from __future__ import annotations

import re
import shutil
import signal
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.project import ROOT
from tests.pseudo_terminal import Terminal
from tests.virtual_microphone import Room, room

TOUR = ROOT / "docs" / "tour.md"
PROMPT = "tour> "
END_S = 30.0
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
SENTENCE = ROOT / "audio_samples" / "quilter.ogg"


class Newcomer:
    """A user in a fresh clone, with a shell and a microphone."""

    def __init__(self, clone: Path, place: Room) -> None:
        self._place = place
        prompts = {"PS1": PROMPT, "PS2": PROMPT, "VIRTUAL_ENV_DISABLE_PROMPT": "1"}
        environment = {**place.environment, **prompts}
        shell = [shutil.which("env") or "env", "-C", str(clone), "bash", "--norc", "--noediting", "-i"]
        self._terminal = Terminal(command=shell, width=200, environment=environment)
        self._terminal.watch(PROMPT)

    def type(self, line: str) -> str:
        """Type a line, do what a person does meanwhile, and return the output up to the next prompt."""
        terminal = self._terminal
        before = len(terminal.shown)
        terminal.type(line + "\n")
        if line.endswith(" mic"):
            self._speak(before)
        if " serve " in line:
            terminal.watch("ws://", before)
        terminal.watch(PROMPT, before + len(line))
        return ESCAPES.sub("", terminal.shown[before:]).replace("\r", "\n")

    def leave(self) -> None:
        """Close the shell. Everything that the tour started must have ended."""
        left = self._terminal.process.children(recursive=True)
        _, left = psutil.wait_procs(left, END_S)
        for process in left:
            process.terminate()
        self._terminal.process.send_signal(signal.SIGHUP)
        self._terminal.status()
        assert not left

    def _speak(self, before: int) -> None:
        self._terminal.watch("listening", before)
        with self._place.play(SENTENCE) as sound:
            assert sound.wait(60) == 0
        self._terminal.watch("classes", before)
        self._terminal.type("\x03")


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    """A user in a clone in which everything is already installed."""
    clone = tmp_path / "clone"
    for source, folder in ((ROOT, clone), (Path(sys.prefix), clone / ".venv")):
        folder.mkdir()
        for entry in source.iterdir():
            if entry.name not in (".venv", ".git", ".installed", ".runs"):
                (folder / entry.name).symlink_to(entry)
    # Newer than all sources, so that nothing is installed again, least of all through these links.
    for stamp in (".installed", ".runs"):
        (clone / ".venv" / stamp).touch()
    folder = tmp_path / "room"
    folder.mkdir()
    with room(folder) as place:
        somebody = Newcomer(clone, place)
        yield somebody
        somebody.leave()


@pytest.mark.timeout(240)
def test_every_line_does_what_the_tour_says(newcomer: Newcomer) -> None:
    """Each command is typed as it is written, and each answer that the tour shows comes."""
    shown, commands, answers = "", 0, 0
    for kind, block, address in re.findall(r"^```(\w+)\n(.*?)^```$|Open <(\S+)>", TOUR.read_text(), re.M | re.S):
        if kind == "sh":
            shown = "".join(newcomer.type(line) for line in block.splitlines())
            commands += 1
        elif kind == "text":
            for line in block.splitlines():
                assert line in shown.split("\n"), shown
            answers += 1
        else:
            with urllib.request.urlopen(address, timeout=60) as page:
                assert "<button" in page.read().decode()
    assert (commands, answers) == (9, 6)
