"""What Triton tells an instance."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest
import torch

from streamer.engine.adapters import instance
from streamer.engine.adapters.instance import Instance
from tests.project import ROOT


def arguments(kind: str) -> dict[str, str]:
    """Return what Triton tells an instance on a device of this kind."""
    args = {"model_config": "{}", "model_name": "model", "model_version": "1", "model_instance_name": "model_0"}
    return {**args, "model_instance_kind": kind, "model_instance_device_id": "1"}


def instance_of(kind: str) -> Instance:
    return Instance(arguments(kind))


@pytest.mark.parametrize(("kind", "gpu"), [("GPU", 1), ("CPU", None)])
def test_the_device_of_an_instance(kind: str, gpu: int | None) -> None:
    """An instance knows which GPU it may use, or that there is none for it."""
    assert instance_of(kind).gpu == gpu


@pytest.mark.parametrize(
    ("config", "threads"),
    [
        ({"parameters": {"threads": {"string_value": "3"}}}, 3),
        ({"parameters": {"threads": {"string_value": "3"}}, "instance_group": [{"count": 2}]}, 3),
        ({"instance_group": [{"count": 1}]}, 6),
        ({"instance_group": [{"count": 1}, {"count": 3}]}, 1),
        ({"instance_group": [{"count": 9}]}, 1),
        ({}, 6),
        ({"parameters": {"pipelined": {"string_value": "true"}}}, 5),
        ({"parameters": {"pipelined": {"string_value": "true"}}, "instance_group": [{"count": 6}]}, 1),
        ({"parameters": {"pipelined": {"string_value": "true"}, "threads": {"string_value": "3"}}}, 3),
    ],
)
def test_instances_share_the_processors(
    config: dict[str, object], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance has the threads of its configuration, or its share of the processors, with one less in a pipeline."""
    monkeypatch.setattr(instance, "processors", lambda: 6)
    assert Instance({**arguments("CPU"), "model_config": json.dumps(config)}).threads == threads


@pytest.mark.parametrize("value", ["0", "two", "", "-1", "1.5"])
def test_a_number_of_threads_that_is_none(value: str) -> None:
    """The message names the parameter and what it must be."""
    config = json.dumps({"parameters": {"threads": {"string_value": value}}})
    with pytest.raises(ValueError, match="'threads' must be a whole number from 1 on"):
        _ = Instance({**arguments("CPU"), "model_config": config}).threads


@pytest.mark.parametrize(
    ("kind", "parameters", "pipelined"),
    [
        ("GPU", {}, True),
        ("CPU", {}, False),
        ("GPU", {"pipelined": {"string_value": "false"}}, False),
        ("CPU", {"pipelined": {"string_value": "true"}}, True),
    ],
)
def test_where_there_is_a_pipeline(kind: str, parameters: dict[str, object], pipelined: bool) -> None:
    """An instance computes and searches at the same time on a GPU, unless its configuration decides."""
    config = json.dumps({"parameters": parameters})
    assert Instance({**arguments(kind), "model_config": config}).pipelined is pipelined


def test_a_pipeline_that_is_neither_on_nor_off() -> None:
    """The message names the parameter and what it must be."""
    config = json.dumps({"parameters": {"pipelined": {"string_value": "yes"}}})
    with pytest.raises(ValueError, match="'pipelined' must be true or false, not 'yes'"):
        _ = Instance({**arguments("CPU"), "model_config": config}).pipelined


def test_a_cpu_needs_no_torch() -> None:
    """On a CPU, the device is chosen without torch."""
    program = f"""import sys
from streamer.engine.adapters.instance import Instance
print(Instance({arguments("CPU")!r}).device, "torch" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["cpu", "False"]


def test_a_gpu_that_cannot_be_used(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """If torch is missing or cannot use the GPU, the CPU computes, and the log says why."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert instance_of("GPU").device == "cpu"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert instance_of("GPU").device == "cpu"
    begin = "model_0 computes on the CPU, although there is a GPU"
    assert caplog.messages == [
        f"{begin}: torch cannot use it",
        f"{begin}: torch is not installed (pip install 'streamer-asr[gpu]')",
    ]


def test_a_gpu_that_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is the GPU that Triton has chosen."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert instance_of("GPU").device == "cuda:1"
