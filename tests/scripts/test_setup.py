"""The scripts behind `make system` and `make install`, on machines where something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT, SCRIPTS

# What a script needs besides the commands that a test puts in place.
TOOLS = ("sh", "env", "dirname", "sed")
# Commands that packages bring, in the order in which they are asked for.
DESKTOPS = ("Xvfb", "xdotool", "xterm", "xclip", "sway", "wtype", "foot", "wl-copy")
INSTALLED = ("espeak-ng", "flite", "chromium", "pulseaudio", "dbus-daemon", *DESKTOPS, "ffmpeg", "ip", "zsh", "fish")


class Machine:
    """A PATH that has only the commands of a test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for tool in TOOLS:
            (folder / tool).symlink_to(Path("/usr/bin") / tool)
        self.has("id", "echo 1000")
        for command in INSTALLED:
            self.has(command, "exit 0")

    def has(self, name: str, script: str) -> None:
        """Add a command with this name."""
        (self._folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (self._folder / name).chmod(0o755)

    def lacks(self, name: str) -> None:
        """Remove the command with this name."""
        (self._folder / name).unlink()

    def run(self, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run one of the scripts there."""
        return subprocess.run(
            [SCRIPTS / script, *arguments],
            env={"PATH": str(self._folder), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Provide a machine without Python."""
    return Machine(tmp_path)


REAL = f'exec "{sys.executable}" "$@"'
# The questions are told apart by a word in them.
WITHOUT_VENV = f'case "$*" in *ensurepip*) exit 1;; esac; {REAL}'
WITHOUT_VENV_AND_LIBRARY = f'case "$*" in *ensurepip*|*libpython*) exit 1;; esac; {REAL}'


def bare(machine: Machine, python: str, folder: Path) -> None:
    """Make a machine whose only Python behaves like this."""
    # find_python prints what a Python says of itself; here it has to name the stand-in.
    machine.has("python3", f'case "$*" in *_base_executable*) echo {folder}/python3; exit;; esac; {python}')


def test_the_first_python_that_fits_is_taken(machine: Machine) -> None:
    """A version that is too new, and a Python that does not work, are skipped."""
    machine.has("python3", "exit 1")
    machine.has("python3.12", "echo 'command not found' >&2; exit 127")
    machine.has("python3.11", REAL)
    done = machine.run("find_python")
    assert done.returncode == 0
    assert Path(done.stdout.strip()).samefile(Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}")
    assert done.stderr == ""


def test_no_python_is_one_sentence(machine: Machine) -> None:
    """One sentence names the versions that would work."""
    machine.has("python3", "exit 1")
    done = machine.run("find_python")
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs Python 3.10, 3.11 or 3.12" in done.stderr


def test_the_one_that_was_asked_for_is_taken_or_refused(machine: Machine, tmp_path: Path) -> None:
    """PYTHON=… is never replaced by another Python."""
    machine.has("python3", REAL)
    machine.has("mine", REAL)
    assert machine.run("find_python", PYTHON=f"{tmp_path}/mine").returncode == 0
    done = machine.run("find_python", PYTHON="missing")
    assert done.returncode == 1
    assert "PYTHON=missing" in done.stderr


def test_nothing_missing_is_nothing_done(machine: Machine) -> None:
    """If nothing is missing, the package manager is not called."""
    machine.has("python3", REAL)
    machine.has("apt-get", "echo called; exit 1")
    done = machine.run("system_packages")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_the_right_to_install_the_line_to_type_is_printed(machine: Machine, tmp_path: Path) -> None:
    """Without permission, it prints one command that installs all that is missing, and fails."""
    bare(machine, WITHOUT_VENV_AND_LIBRARY, tmp_path)
    machine.has("apt-get", "echo called")
    machine.has("sudo", "exit 1")
    done = machine.run("system_packages")
    assert (done.returncode, done.stdout) == (1, "")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (line,) = [line.strip() for line in done.stderr.splitlines() if "sudo" in line]
    assert line.endswith(f"apt-get install -y --no-install-recommends python{version}-venv libpython{version}")


def test_missing_commands_are_packages_too(machine: Machine) -> None:
    """Missing voices, browser and sound packages of the tests are found too."""
    machine.has("python3", REAL)
    machine.has("apt-get", "echo called")
    for command in INSTALLED:
        machine.lacks(command)
    done = machine.run("system_packages")
    assert done.returncode == 1
    packages = " ".join(
        {"Xvfb": "xvfb", "wl-copy": "wl-clipboard", "dbus-daemon": "dbus", "ip": "iproute2"}.get(command, command)
        for command in INSTALLED
    )
    assert f"--no-install-recommends {packages}\n" in done.stderr


def test_a_browser_without_windows_is_taken_where_there_is_one(machine: Machine) -> None:
    """Debian has one, which costs less; without it, the usual one is installed."""
    machine.has("python3", REAL)
    machine.has("id", "echo 0")
    machine.has("apt-get", 'echo "$@"')
    machine.lacks("chromium")
    for known, package in ("exit 1", "chromium"), ("exit 0", "chromium-headless-shell"):
        machine.has("apt-cache", known)
        done = machine.run("system_packages")
        assert done.returncode == 0
        assert f"install -y -qq --no-install-recommends {package}" in [line.strip() for line in done.stdout.split("\n")]
    machine.has(package, "exit 0")
    done = machine.run("system_packages")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_running_needs_less(machine: Machine, tmp_path: Path) -> None:
    """Running the service needs no browser, shells, sound server or voices; an unknown purpose is refused."""
    bare(machine, WITHOUT_VENV_AND_LIBRARY, tmp_path)
    for command in INSTALLED:
        machine.lacks(command)
    machine.has("apt-get", "echo called")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    done = machine.run("system_packages", "run")
    assert done.returncode == 1
    assert f"--no-install-recommends python{version}-venv libpython{version}\n" in done.stderr
    machine.has("python3", REAL)
    done = machine.run("system_packages", "run")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.run("system_packages", "walk").stderr == ("system_packages: the purpose is run or test, not walk\n")


def make(folder: Path, target: str) -> str:
    """Return what `make` would do in a fresh clone."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        if not (folder / name).exists():
            (folder / name).write_text((ROOT / name).read_text())
    # `make test` runs this below another make, which would have this one print its folder.
    silent = ["make", "--no-print-directory", "--dry-run", target]
    done = subprocess.run(silent, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_make_run_says_what_it_installs_before_it_does(tmp_path: Path) -> None:
    """`make run` names the packages that running needs; the tests install the others themselves."""
    running, testing = make(tmp_path, "run"), make(tmp_path, "test")
    assert running.index("Installing what running needs") < running.index("-m venv") < running.index("pip install")
    assert "system_packages run" in running
    assert "'.[embedded,reader]'" in running
    assert "system_packages test" not in running
    assert "[dev]" not in running
    assert testing.index("system_packages test") < testing.index("'.[dev]'") < testing.index("pytest")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".runs").touch()
    assert "pip install" not in make(tmp_path, "run")
    assert "pip install" in make(tmp_path, "test")


@pytest.mark.parametrize("root", [True, False])
def test_with_the_right_to_install_it_installs(machine: Machine, tmp_path: Path, root: bool) -> None:
    """As root, or with sudo without a password, it installs without asking."""
    bare(machine, WITHOUT_VENV, tmp_path)
    if root:
        machine.has("id", "echo 0")
    else:
        machine.has("sudo", 'shift; exec "$@"')
        machine.has("true", "exit 0")
    machine.has("apt-get", 'echo "$DEBIAN_FRONTEND $*"')
    done = machine.run("system_packages")
    assert done.returncode == 0, done.stderr
    updated, installed = done.stdout.splitlines()
    assert updated == "noninteractive update -qq"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert installed == f"noninteractive install -y -qq --no-install-recommends python{version}-venv"


def test_another_system_is_told_what_is_missing(machine: Machine, tmp_path: Path) -> None:
    """Without apt-get, the names of the packages are printed."""
    bare(machine, WITHOUT_VENV, tmp_path)
    done = machine.run("system_packages")
    assert done.returncode == 1
    assert "-venv" in done.stderr


def test_the_real_machine_lacks_nothing() -> None:
    """On the machine that runs the tests, nothing is missing."""
    done = subprocess.run([SCRIPTS / "system_packages"], env={**os.environ, "PYTHON": sys.executable}, check=False)
    assert done.returncode == 0
