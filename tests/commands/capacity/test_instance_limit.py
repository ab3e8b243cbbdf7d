"""Whether the most instances of a range fit in the memory."""

from __future__ import annotations

import logging
from dataclasses import astuple
from pathlib import Path

import pytest

import streamer.commands.capacity.instance_limit as limiting
from streamer.base.machine import MachineMemory
from streamer.bridge.triton import TritonError
from streamer.commands.capacity.instance_limit import (
    Sizes,
    check_instances,
)
from streamer.commands.capacity.memory import ModelMemory
from streamer.commands.capacity.plan import Memory, Part, Scope, Size
from streamer.testing.exact_service import add_exact_model

GB = 10**9
PARTS = (
    Part("service", Scope.SERVICE, GB),
    Part("instance", Scope.INSTANCE, GB, gpu=2 * GB),
    Part("stream", Scope.STREAM, GB // 100),
)


@pytest.mark.parametrize(
    ("memory", "fitting"), [(Memory(10 * GB), 4), (Memory(7 * GB), 3), (Memory(10 * GB, 6 * GB), 2), (Memory(GB), 0)]
)
def test_how_many_fit(memory: Memory, fitting: int) -> None:
    """One fifth of the memory stays free; where there is a GPU, both memories count."""
    assert Sizes(PARTS, memory).fitting(Size(4, 26, 100)) == fitting


def test_fewer_have_fewer_streams() -> None:
    """Some of a thousand instances fit, although the streams of all of them would not."""
    assert Sizes(PARTS, Memory(10 * GB)).fitting(Size(1000, 26, 25_000)) == 5


def test_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has the numbers and what to do. The sizes are measured once."""
    model, asked = add_exact_model(tmp_path / "repository", slots=26), []

    def measured(*_: object) -> ModelMemory:
        asked.append(1)
        return ModelMemory("exact", None, None, 32, PARTS)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(limiting, "model_memory", measured)
    monkeypatch.setattr(limiting, "server_parts", lambda _, reader: [])
    monkeypatch.setattr(limiting, "speakers_cost", lambda: None)
    monkeypatch.setattr(limiting, "machine_memory", lambda: MachineMemory(7 * GB))
    told = "need up to 6\\.0 GB of main memory, and 5\\.6 GB may be used: there is room for 3\\."
    for _ in range(2):
        with pytest.raises(TritonError, match=f"4 instances of streaming_asr with 26 slots {told}"):
            check_instances(model, tmp_path, 4, None, None)
    check_instances(model, tmp_path, 4, None, 50)
    check_instances(model, tmp_path, 3, None, None)
    assert len(asked) == 1


def test_what_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """If the model cannot be measured, a warning says why, and nothing is refused."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with caplog.at_level(logging.WARNING, "streamer"):
        check_instances(tmp_path / "missing", tmp_path, 4, None, None)
    assert "it is not known whether 4 instances of missing fit" in caplog.text


def test_a_part_survives_being_remembered() -> None:
    """A part that was remembered is equal to the part that is recalled."""
    for part in PARTS:
        assert len(astuple(part)) == len(limiting._as_list(part))
        assert limiting._part(limiting._as_list(part)) == part
