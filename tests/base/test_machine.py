"""The machine: freed memory, the folder for temporary files, and what a container leaves of memory and processors."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from streamer.base import machine
from streamer.base.machine import (
    NO_HOME,
    REMEDY,
    free_bytes,
    home_folder,
    machine_memory,
    preferred_folder,
    processor_time,
    processors,
    user_folder,
)
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer

# Many small objects are freed between others that stay, so the heap cannot simply become shorter.
PROGRAM = """
import re
from pathlib import Path
from streamer.base.machine import give_back_freed_memory

def own_kb():
    return int(re.findall(r"^RssAnon:\\s*(\\d+) kB$", Path("/proc/self/status").read_text(), re.M)[0])

kept = [bytes(20_000) for _ in range(4000)]
del kept[:-1]
before = own_kb()
give_back_freed_memory()
print(before - own_kb())
"""


def test_it_is_given_back() -> None:
    """A process takes less memory after it has returned freed memory to the system."""
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(found.stdout) > 50_000


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that TMPDIR names."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_the_folder_that_was_named(folder: Path) -> None:
    """The named folder is used if it has space."""
    assert preferred_folder() == machine.temporary_folder() == folder
    assert free_bytes(folder) > 0
    assert free_bytes(folder / "missing") == 0


@pytest.mark.usefixtures("installed_server")
def test_a_full_folder_is_named_with_its_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has a remedy, also when a Triton was to be started."""
    monkeypatch.setattr(machine, "LEAST", 1 << 60)
    with pytest.raises(OSError, match="is full") as caught:
        machine.temporary_folder()
    assert caught.value.strerror == f"the temporary folder {folder} is full: {REMEDY}"
    with pytest.raises(TritonError) as refused:
        TritonServer(asr_repository(), models=[MODEL]).start()
    assert str(refused.value) == f"Triton could not be started: {caught.value.strerror}"


def test_the_present_folder_is_no_place_for_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is not used for temporary files, although Python would use it if no other has space."""
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr(tempfile, "tempdir", str(folder.parent))
    with pytest.raises(OSError, match=REMEDY):
        machine.temporary_folder()
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(OSError, match=REMEDY):
        machine.temporary_folder()


def test_the_folder_that_xdg_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable names the folder, unless it is relative."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_folder("XDG_CACHE_HOME", ".cache") == tmp_path
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert user_folder("XDG_CACHE_HOME", ".cache") == Path.home() / ".cache"


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home folder has one in which nothing is found."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert home_folder() == NO_HOME
    assert not user_folder("XDG_CACHE_HOME", ".cache").exists()


GB = 1_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with 8 GB, without control groups."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal:        8000000 kB\nMemFree:         100 kB\n")
    return tmp_path


def limit(root: Path, groups: str, **limits: str) -> None:
    """Put this process into control groups with these limits, by their paths."""
    (root / "proc/self/cgroup").write_text(groups)
    for path, text in limits.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


def test_a_machine_without_limits(root: Path) -> None:
    """All memory may be used."""
    assert (machine_memory(root).size, machine_memory(root).limited) == (
        8_192_000_000,
        False,
    )


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        ("0::/service/part\n", {"service/memory.max": str(GB), "service/part/memory.max": "max"}),  # by the group above
        ("0::/service/part\n", {"service/memory.max": "max", "service/part/memory.max": str(GB)}),
        ("0::/\n", {"memory.max": str(GB)}),  # as a container sees itself
        ("0::/../outside\n", {"memory.max": str(GB)}),
        ("4:cpu:/x\n3:memory:/docker/1\n", {"memory/memory.limit_in_bytes": str(GB)}),  # the first version of groups
        ("3:memory:/one\n", {"memory/one/memory.limit_in_bytes": str(GB), "memory/memory.limit_in_bytes": str(2**63)}),
    ],
)
def test_a_container(root: Path, groups: str, limits: dict[str, str]) -> None:
    """The lowest limit of the group and of all groups above it counts."""
    limit(root, groups, **limits)
    assert (machine_memory(root).size, machine_memory(root).limited) == (
        GB,
        True,
    )


@pytest.mark.parametrize("text", ["max", "", str(2**63 - 4096), "nonsense"])
def test_no_limit(root: Path, text: str) -> None:
    """A limit above the memory of the machine, or none, changes nothing."""
    limit(root, "0::/service\n", **{"service/memory.max": text})
    assert not machine_memory(root).limited


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        ("0::/service\n", {"service/cpu.max": "50000 100000"}),
        ("2:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}),
    ],
)
def test_a_part_of_a_processor(root: Path, groups: str, limits: dict[str, str]) -> None:
    """A container that may use half a processor has one."""
    limit(root, groups, **limits)
    assert (processors(root), processor_time(root)) == (1, 0.5)


def test_all_processors(root: Path) -> None:
    """Without a quota, or with one above what the affinity allows, the affinity counts."""
    for quota in ("max 100000", "99999999 100000"):
        limit(root, "0::/\n", **{"cpu.max": quota})
        assert processor_time(root) == processors(root) == len(os.sched_getaffinity(0))
