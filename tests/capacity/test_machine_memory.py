"""The memory and the processors of machines and containers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamer.capacity.machine_memory import machine_memory, processor_time, processors

GB = 1_000_000_000


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with 8 GB, without control groups."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal:        8000000 kB\nMemFree:         100 kB\n")
    return tmp_path


def limit(machine: Path, groups: str, **limits: str) -> None:
    """Put this process into control groups with these limits, by their paths."""
    (machine / "proc/self/cgroup").write_text(groups)
    for path, text in limits.items():
        file = machine / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


def test_a_machine_without_limits(machine: Path) -> None:
    """All memory may be used."""
    assert (machine_memory(machine).size, machine_memory(machine).limited) == (8_192_000_000, False)


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
def test_a_container(machine: Path, groups: str, limits: dict[str, str]) -> None:
    """The lowest limit of the group and of all groups above it counts."""
    limit(machine, groups, **limits)
    assert (machine_memory(machine).size, machine_memory(machine).limited) == (GB, True)


@pytest.mark.parametrize("text", ["max", "", str(2**63 - 4096), "nonsense"])
def test_no_limit(machine: Path, text: str) -> None:
    """A limit above the memory of the machine, or none, changes nothing."""
    limit(machine, "0::/service\n", **{"service/memory.max": text})
    assert not machine_memory(machine).limited


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        ("0::/service\n", {"service/cpu.max": "50000 100000"}),
        ("2:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}),
    ],
)
def test_a_part_of_a_processor(machine: Path, groups: str, limits: dict[str, str]) -> None:
    """A container that may use half a processor has one."""
    limit(machine, groups, **limits)
    assert (processors(machine), processor_time(machine)) == (1, 0.5)


def test_all_processors(machine: Path) -> None:
    """Without a quota, or with one above what the affinity allows, the affinity counts."""
    for quota in ("max 100000", "99999999 100000"):
        limit(machine, "0::/\n", **{"cpu.max": quota})
        assert processor_time(machine) == processors(machine) == len(os.sched_getaffinity(0))
