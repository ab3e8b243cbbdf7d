"""Whether the most instances of a range fit in the memory."""

from __future__ import annotations

import logging
from dataclasses import astuple
from pathlib import Path

import pytest

import streamer.commands.capacity.instance_limit as limiting
from streamer.base.machine import MachineMemory
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.capacity.instance_limit import (
    OTHER_BYTES,
    PUBLIC_BYTES,
    SERVICE_BYTES,
    Sizes,
    check_instances,
    check_room,
    expected_memory,
    memory_for_models,
)
from streamer.commands.capacity.memory import ModelMemory
from streamer.commands.capacity.plan import Memory, Part, Scope, Size
from streamer.models.model_folder import read_model_folder
from streamer.testing.exact_service import add_exact_model
from workshop.graphs.exact_icefall import make_transducer_folder

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


def test_what_models_may_hold(tmp_path: Path) -> None:
    """Four fifths of the memory, without the service itself, unless somebody gives a number."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:       10000000 kB\n")
    assert memory_for_models(None, tmp_path) == 8 * 1024 * 10**6 - SERVICE_BYTES
    assert memory_for_models(1.5, tmp_path) == 1_500_000_000


def test_what_a_model_takes(tmp_path: Path) -> None:
    """A public model takes its used files and the states of its slots, and each instance of a model a fixed amount."""
    folder = make_transducer_folder(tmp_path)
    (folder / "encoder.int8.onnx").write_bytes(bytes(1000))
    (folder / "README.md").write_text("unused")
    public = read_model_folder(folder)
    assert public.transducer is not None
    graphs = (public.encoder, public.transducer.predictor, public.transducer.joiner)
    weights = sum(graph.path.stat().st_size for graph in graphs)
    once = PUBLIC_BYTES + weights + 5 * public.layout.state_bytes
    assert expected_memory(folder, 2, 5) == 2 * once

    exact = add_exact_model(tmp_path / "repository", instances=3)
    size = (exact / "1" / "model.py").stat().st_size
    assert expected_memory(exact, None, None) == 3 * (OTHER_BYTES + size)


def test_an_ensemble() -> None:
    """An ensemble is refused, because its steps would stay loaded."""
    with pytest.raises(TritonError, match="asr_heads is an ensemble: it can only be loaded at the start"):
        expected_memory(asr_repository() / "asr_heads", None, None)


def test_no_room_beside_the_default_model() -> None:
    """The sentence has the model, the numbers, and what to change."""
    check_room({"default": 2 * 10**9, "fast": 10**9}, 3 * 10**9)
    check_room({"default": 10**9, "fast": 10**9, "large": 2 * 10**9}, 3 * 10**9)
    with pytest.raises(
        TritonError,
        match=r"default, which is always loaded, and large together need about 3\.0 GB, and models may hold 2\.0",
    ):
        check_room({"default": 10**9, "fast": 10**9, "large": 2 * 10**9}, 2 * 10**9)
    with pytest.raises(TritonError, match=r"default needs about 3\.0 GB, and models may hold 2\.0 GB: give more with"):
        check_room({"default": 3 * 10**9}, 2 * 10**9)
