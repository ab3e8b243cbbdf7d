"""The programs and commands in the documents, run as they are written there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.bridge.service import Service
from streamer.commands.cli import COMMANDS, _read_with_files, parser_of
from streamer.testing import say, silence
from tests.engine.text import plain_form
from tests.project import DOCS, ROOT
from tests.samples import write_beginning

SAMPLES = ROOT / "audio_samples"
PATIENCE_S = 100
# What the recordings say that the documents name.
SAID = {
    "talk.flac": "a talk of one sentence",
    "quilter.ogg": "mister quilter speaks here",
    "airplane.mp3": "an airplane",
}


def blocks(document: str, language: str) -> list[str]:
    """The code blocks of a document in this language."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def service(exact_service: Service) -> Service:
    """An exact model, because the documents are not about its words."""
    return exact_service


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings for it with the names of the real ones. An exact model needs the samples unchanged: all are FLAC."""
    folder = tmp_path_factory.mktemp("recordings")
    for name, text in SAID.items():
        soundfile.write(folder / name, np.concatenate([say(text), silence(300)]), SAMPLE_RATE, format="FLAC")
    return folder


@pytest.fixture
def place(tmp_path: Path, recordings: Path) -> Path:
    """A folder with the recordings that the documents name, and the command."""
    for path in recordings.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "calls" / "monday").mkdir(parents=True)
    shutil.copy(recordings / "airplane.mp3", tmp_path / "calls" / "monday")
    (tmp_path / "subtitles").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "streamer").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streamer "$@"\n')
    (tmp_path / "bin" / "streamer").chmod(0o755)
    return tmp_path


def run(command: list[str], place: Path, service: Service) -> str:
    """Run something successfully, with no other output than its own."""
    environment = {**os.environ, "STREAMER_SERVER": service.url, "PATH": f"{place}/bin:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def first_words() -> dict[str, list[str]]:
    """The words of recordings that were recognised before."""
    return {}


Words = Callable[[str], list[str]]


@pytest.fixture
def words(first_words: dict[str, list[str]], service: Service, place: Path) -> Words:
    """The words that the command gives for a recording, as they were said."""

    def found(recording: str) -> list[str]:
        if recording not in first_words:
            first_words[recording] = run(["streamer", recording, "--spoken"], place, service).split()
        return first_words[recording]

    return found


PROGRAMS = blocks("how-to/python.md", "python")
[WITH_HOTWORDS] = [program for program in PROGRAMS if "hotwords" in program]


@pytest.mark.parametrize("number", [number for number, each in enumerate(PROGRAMS) if each != WITH_HOTWORDS])
def test_a_python_program_runs(service: Service, place: Path, words: Words, number: int) -> None:
    """Each program runs by itself, without a warning, and shows its result."""
    program = PROGRAMS[number]
    shown = run([sys.executable, "-W", "error", "-c", program], place, service)
    if "SessionError" in program:
        assert re.fullmatch(r"away No service answers at \S+: .*\nmissing\.wav: there is no such file\.\n", shown)
        return
    assert " ".join(words("talk.flac")[:4]) in " ".join(re.sub(r" \(\?\)", "", shown).split())


def test_a_python_program_with_hotwords_runs(shipped_service: Service, place: Path) -> None:
    """So does the one with hotwords. An exact model has none, so it hears the beginning of the real recording."""
    write_beginning(place / "beginning.flac", "quilter.ogg", 2.5).replace(place / "quilter.ogg")
    shown = run([sys.executable, "-W", "error", "-c", WITH_HOTWORDS], place, shipped_service)
    options = ("--step-ms", "160", "--hotword", "Quilter")
    right = run(["streamer", "quilter.ogg", *options], place, shipped_service).split()
    assert "Quilter" in " ".join(right)
    assert " ".join(right[:4]) in " ".join(shown.split())


@pytest.mark.parametrize("number", range(len(blocks("how-to/testing.md", "python"))))
def test_a_program_that_tests_a_client_runs(service: Service, place: Path, number: int) -> None:
    """The program runs without a warning, and shows the recognised words."""
    shown = run([sys.executable, "-W", "error", "-c", blocks("how-to/testing.md", "python")[number]], place, service)
    assert shown.strip() in ("nothing is lost and nothing is doubled", "a program of mine")


def test_the_agent_stops_and_answers(shipped_service: Service) -> None:
    """It repeats both recordings, and stops repeating the first one when the second begins."""
    [program] = blocks("how-to/agent.md", "python")
    shown = run([sys.executable, "-W", "error", "-c", program], SAMPLES, shipped_service)
    assert len(re.findall(r"^user: ", shown, re.MULTILINE)) >= 2
    first, stopped, second = shown.partition("The agent stops ")
    assert stopped
    assert "agent: " in first
    assert len(re.findall(r"The agent answers -?\d+ ms after the last word", first)) >= 1
    assert "airplane" in second


def test_python_programs_are_there() -> None:
    """There are programs for both clients, for both uses, and for errors."""
    programs = blocks("how-to/python.md", "python")
    for words in (
        "with connect()",
        "async with connect()",
        ".result()",
        "await asyncio.gather(transcribe",
        "except Session",
    ):
        assert any(words in program for program in programs)


@pytest.mark.parametrize(
    "command", [line for block in blocks("how-to/command-line.md", "sh") for line in block.splitlines()]
)
def test_a_command_runs(service: Service, place: Path, command: str) -> None:
    """Each command runs as written, and has a result."""
    if "ffmpeg" in command and shutil.which("ffmpeg") is None and not os.environ.get("CI"):
        pytest.skip("ffmpeg is not installed: make system")
    before = {path for path in place.rglob("*") if path.is_file()}
    shown = run(["bash", "-o", "pipefail", "-c", command], place, service)
    made = [path for path in place.rglob("*") if path.is_file() and path not in before]
    assert shown or made
    assert all(path.stat().st_size > 0 for path in made)
    if "-o subtitles" in command:
        endings = ["json", "srt"] if "srt,json" in command else ["srt"]
        names = sorted(str(path.relative_to(place)) for path in made)
        assert names == [f"subtitles/monday/airplane.{ending}" for ending in endings]


def command_lines() -> list[tuple[str, str]]:
    """Every command line of `streamer` in a block of a document for users, with the document."""
    pages = [ROOT / "README.md", DOCS / "tour.md", *sorted((DOCS / "how-to").rglob("*.md"))]
    pages += [*sorted((DOCS / "reference").rglob("*.md")), *sorted((DOCS / "explanation").rglob("*.md"))]
    found = []
    for page in pages:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        fenced = re.findall(r"^ *```\w*\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
        lines = [*"".join(fenced).splitlines(), *re.findall(r"^    .*", text, re.MULTILINE)]
        found += [(page.name, line.strip()) for line in lines if re.match(r" *streamer [^…]*$", line)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_a_command_line_can_be_typed(page: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No command line of a document is refused for its options. Models that it names need not be there."""
    words = shlex.shlex(re.sub(r" --model \./\S+", "", line), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    _, *arguments = takewhile(lambda word: not set(word) <= set("();<>|&"), words)
    name = arguments[0] if arguments[0] in COMMANDS else None
    with suppress(SystemExit):  # also of --help and --version
        if name is None:
            _read_with_files(parser_of(None), arguments)
        else:
            parser_of(name).read(arguments[1:])
    assert capsys.readouterr().err == "", f"{page}: {line}"


def test_command_lines_are_there() -> None:
    """They are found: without any, the test before says nothing."""
    assert len(command_lines()) > 100


def written(spoken: str) -> str:
    """The written form of something that is said in the middle of a sentence."""
    return " ".join(token.text for token in plain_form.written(spoken.split(), begins=False))


def promised_forms() -> list[tuple[str, str]]:
    """The examples in the table of the written form."""
    examples = (DOCS / "reference/written.md").read_text().partition("## What is settled")[0]
    rows = re.findall(r"^\| (.*?) \| (.*?) \|", examples, re.MULTILINE)
    pairs = [pair for spoken, form in rows for pair in zip(spoken.split(" · "), form.split(" · "), strict=False)]
    return [(spoken, form) for spoken, form in pairs if form != "the same" and spoken != "spoken" and "---" not in form]


@pytest.mark.parametrize(("spoken", "form"), promised_forms())
def test_the_written_form_is_what_its_page_promises(spoken: str, form: str) -> None:
    """Each example is right, except for the capital at the beginning of a sentence."""
    if form[:1].isupper() and spoken[:1] == form[:1].lower() and spoken.split()[0] == "the":
        form = form[0].lower() + form[1:]
    assert written(spoken) == form


@pytest.mark.parametrize("place", ["docs/reference/protocol.md", "streamer/web/index.html"])
def test_a_time_is_written_in_one_form(place: str) -> None:
    """Wherever a page gives an example of a time, the recogniser writes it in the same form."""
    text = (ROOT / place).read_text(encoding="utf-8")
    assert written("three thirty p m") == "3:30 PM"
    assert "three thirty p m" in text
    assert "3:30 PM" in text
    assert not re.search(r"\b[ap]\.m\.", text)
