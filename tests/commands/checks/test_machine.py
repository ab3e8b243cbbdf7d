"""The checks of the machine, and their messages if something is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from streamer.base import machine as temporary_folder
from streamer.base.machine import MachineMemory
from streamer.commands.checks import machine
from streamer.commands.checks.finding import FINE, WARNING, WRONG, Finding
from tests.virtual_desktop import x11_desktop


def only(check: Callable[[], Iterable[Finding]]) -> Finding:
    """The one finding of a check."""
    (found,) = check()
    return found


@pytest.mark.parametrize(
    "check",
    [
        machine.python,
        machine.system,
        machine.shared_memory,
        machine.temporary_files,
        machine.descriptors,
        machine.environment,
        machine.ffmpeg,
    ],
)
def test_this_machine_is_fine(check: Callable[[], Iterable[Finding]]) -> None:
    """This machine is fine, because the tests run on it."""
    found = only(check)
    assert (found.state, found.remedy) == (FINE, "")


def test_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Python version is a warning that names the tested versions."""
    monkeypatch.setattr(machine, "PYTHONS", ((3, 20), (3, 22)))
    found = only(machine.python)
    assert found.state == WARNING
    assert "tested with Python 3.20 to 3.22" in found.said
    assert "PYTHON=" in found.remedy


def test_a_container_with_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a control group allows counts, not what the machine has."""
    monkeypatch.setattr(machine, "machine_memory", lambda: MachineMemory(512 << 20, limited=True))
    found = only(machine.system)
    assert found.state == WARNING
    assert ", 0.5 GiB of memory for this container or service: the model and its server need at least" in found.said


def test_shared_memory_that_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little shared memory is a warning, too little is a problem; both say how to get more."""
    monkeypatch.setattr(machine, "GOOD_SHARED_MEMORY", 1 << 60)
    assert only(machine.shared_memory).state == WARNING
    monkeypatch.setattr(machine, "LEAST_SHARED_MEMORY", 1 << 60)
    found = only(machine.shared_memory)
    assert found.state == WRONG
    assert "but Triton needs" in found.said
    assert "docker run --shm-size=1g" in found.remedy


def test_shared_memory_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message repeats the system's reason."""
    monkeypatch.setattr(machine, "SHARED_MEMORY", tmp_path / "shm")
    found = only(machine.shared_memory)
    assert found.state == WRONG
    assert "No such file or directory" in found.said


def test_a_temporary_folder_that_is_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A full folder is named with a remedy. It is only a warning if another folder has space."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(machine, "GOOD_TEMPORARY", 1 << 60)
    found = only(machine.temporary_files)
    assert (found.state, found.remedy) == (WARNING, temporary_folder.REMEDY)
    assert found.said.endswith(f" free in {tmp_path}")
    monkeypatch.setattr(temporary_folder, "LEAST", 1 << 60)
    found = only(machine.temporary_files)
    assert (found.state, found.remedy) == (WRONG, temporary_folder.REMEDY)
    assert found.said == f"the temporary folder {tmp_path} is full"


def test_few_open_files() -> None:
    """A low limit is a warning, because each session needs a descriptor."""
    code = "from streamer.commands.checks import machine; print(*[found.line() for found in machine.descriptors()])"
    command = ["/bin/sh", "-c", f'ulimit -Sn 256; exec "{sys.executable}" -c "{code}"']
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("! open files      256 per process")
    assert "→ ulimit -n 4096" in done.stdout


def test_what_is_set_is_told_and_secrets_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a key, and of a proxy whose address may contain a password, only the presence is shown."""
    monkeypatch.setenv("STREAMER_KEY", "streamer_abc")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy:3128")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    said = only(machine.environment).said
    assert "OMP_NUM_THREADS=3" in said
    assert "STREAMER_KEY is set (not shown)" in said
    assert "HTTPS_PROXY is set (not shown)" in said
    assert "streamer_abc" not in said
    assert "secret" not in said


def test_no_ffmpeg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without ffmpeg, or with one that does not run, the message names the package."""
    monkeypatch.setenv("PATH", str(tmp_path))
    found = only(machine.ffmpeg)
    assert (found.state, found.remedy) == (WARNING, "apt install ffmpeg")
    (tmp_path / "ffmpeg").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "ffmpeg").chmod(0o755)
    assert "does not run" in only(machine.ffmpeg).said


def test_typing_without_a_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where words cannot be typed into windows, the check says why; that is no problem."""
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    found = only(machine.typing)
    assert (found.state, found.remedy) == (FINE, "")
    assert found.said.startswith("not possible: there is no desktop: ")


def test_typing_with_a_desktop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a desktop that lets programs type, it says so."""
    with x11_desktop(tmp_path) as desktop:
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setenv("DISPLAY", desktop.environment["DISPLAY"])
        assert only(machine.typing) == Finding("typing", FINE, "words can be typed into windows")
