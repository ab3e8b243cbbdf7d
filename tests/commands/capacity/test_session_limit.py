"""The measured number of sessions that `serve` remembers, and its limit of sessions."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from streamer.base.package import shipped
from streamer.bridge.service import Service
from streamer.bridge.triton.repository import asr_repository, parts_of
from streamer.bridge.triton.server import TritonServer
from streamer.commands.capacity.session_limit import MOST_REMEMBERED, SPEECH, Capacities, Finding, circumstances
from streamer.commands.cli import run
from streamer.models.readers import ChosenReader
from streamer.testing.exact_service import exact_repository
from tests.bridge.service_client import SPOKEN, recognise, text
from tests.bridge.upstreams.opened_models import opened
from tests.serve_process import serving

MODEL = "streaming_asr"


@pytest.fixture
def capacities(tmp_path: Path) -> Capacities:
    return Capacities(tmp_path / "somewhere" / "capacity.json")


def test_remembered(capacities: Capacities) -> None:
    """A result is found for the same circumstances, also by another process, and for no others."""
    assert capacities.get({"model": "a"}) is None
    assert capacities.put({"model": "a"}, 7)
    assert capacities.put({"model": "b"}, 8)
    assert capacities.put({"model": "a"}, 9)
    again = Capacities(capacities.path)
    assert (again.get({"model": "a"}), again.get({"model": "b"}), again.get({"model": "c"})) == (9, 8, None)
    assert [path.name for path in capacities.path.parent.iterdir()] == ["capacity.json"]


def test_not_too_much_is_remembered(capacities: Capacities) -> None:
    """The oldest result is forgotten."""
    for number in range(MOST_REMEMBERED + 1):
        capacities.put({"number": number}, 1)
    assert capacities.get({"number": 0}) is None
    assert capacities.get({"number": 1}) == capacities.get({"number": MOST_REMEMBERED}) == 1


@pytest.mark.parametrize("broken", ["", "{", "[]", "7", '{"x":1}', "\0"])
def test_a_broken_file_is_an_empty_one(capacities: Capacities, broken: str) -> None:
    """A broken file is replaced."""
    capacities.path.parent.mkdir()
    capacities.path.write_text(broken)
    assert capacities.get({"model": "a"}) is None
    assert capacities.put({"model": "a"}, 7)
    assert capacities.get({"model": "a"}) == 7


@pytest.mark.parametrize("sessions", [0, -1, "7", None, 1.5])
def test_nonsense_is_not_believed(capacities: Capacities, sessions: object) -> None:
    """An impossible number is ignored."""
    capacities.put({"model": "a"}, 7)
    known = json.loads(capacities.path.read_text())
    for entry in known.values():
        entry["sessions"] = sessions
    capacities.path.write_text(json.dumps(known))
    assert capacities.get({"model": "a"}) is None


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A file that cannot be written is reported, and nothing else happens."""
    (tmp_path / "file").touch()
    capacities = Capacities(tmp_path / "file" / "capacity.json")
    assert not capacities.put({"model": "a"}, 7)
    assert capacities.get({"model": "a"}) is None


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container there may be no home folder. Then nothing is known, and that is no failure."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert Capacities().get({"model": "a"}) is None


def test_circumstances(tmp_path: Path) -> None:
    """Other weights, another configuration and other settings are other circumstances."""
    shutil.copytree(asr_repository(), tmp_path / "repository")
    repository = tmp_path / "repository"
    before = circumstances(repository / MODEL, None, 256)
    assert before == circumstances(repository / MODEL, None, 256)
    assert circumstances(repository / MODEL, 2, 256) != before != circumstances(repository / MODEL, None, 64)
    os.utime(repository / MODEL / "config.pbtxt", (1, 1))
    assert circumstances(repository / MODEL, None, 256) != before


def test_another_reader_is_another_circumstance(tmp_path: Path) -> None:
    """A reader computes on the same processors, so what was measured without it says nothing about sessions with it."""
    readers = (None, ChosenReader("moonshine-tiny", tmp_path), ChosenReader("moonshine-base", tmp_path))
    known = [circumstances(tmp_path / MODEL, None, 256, reader=reader) for reader in readers]
    assert all(known.count(each) == 1 for each in known)


def test_other_workers_are_another_circumstance(tmp_path: Path) -> None:
    """Several processes of the bridge carry more sessions than one."""
    folder = tmp_path / MODEL
    assert circumstances(folder, None, 256, workers=2) != circumstances(folder, None, 256)


def test_another_quota_is_another_circumstance(tmp_path: Path) -> None:
    """A container that may use more or less processor time carries another number of sessions."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    known = []
    for quota in ("max 100000", "60000 100000", "30000 100000"):
        (tmp_path / "sys/fs/cgroup/cpu.max").write_text(f"{quota}\n")
        found = circumstances(tmp_path / MODEL, None, 256, root=tmp_path)
        assert found not in known
        known.append(found)


def test_what_computes_is_among_the_circumstances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of torch or other code of this package is another circumstance."""
    before: dict[str, Any] = circumstances(tmp_path, None, 256)
    assert before["packages"]["torch"] == torch.__version__.partition("+")[0]
    assert set(before["packages"]) >= {"numba", "onnxruntime"}
    (tmp_path / "package").mkdir()
    code = tmp_path / "package" / "code.py"
    monkeypatch.setattr("streamer.commands.capacity.session_limit.PACKAGE", code.parent)
    known = [before["version"]]
    for content in ("one", "three"):
        code.write_text(content)
        found = circumstances(tmp_path / MODEL, None, 256)["version"]
        assert found not in known
        known.append(found)


def test_circumstances_of_an_ensemble(tmp_path: Path) -> None:
    """A step with another configuration, or other weights of the steps, are other circumstances."""
    shutil.copytree(asr_repository(), tmp_path / "repository")
    repository, ensemble = tmp_path / "repository", tmp_path / "repository" / "asr_heads"
    known = [circumstances(ensemble, None, 256, parts_of(ensemble, repository))]
    for changed in ("activity_head/config.pbtxt", "streaming_asr/1/weights.safetensors"):
        os.utime(repository / changed, (1, 1))
        found = circumstances(ensemble, None, 256, parts_of(ensemble, repository))
        assert found not in known
        known.append(found)


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """An exact model with few slots, so that measuring is short."""
    with TritonServer(exact_repository(tmp_path_factory.mktemp("exact")), slots=4) as server:
        yield server


async def test_what_is_remembered_is_not_measured(capacities: Capacities, triton: TritonServer) -> None:
    """The second start uses the number of the first, and the service admits no more sessions."""
    capacities.put({"model": "a"}, 1)
    async with Service(triton.grpc_address, port=0, sessions=Finding({"model": "a"}, capacities=capacities)) as service:
        assert b"streamer_sessions_limit 1.0" in service.metrics.exposition()
        assert text(await recognise(service.url, SPOKEN[:200_000]))


async def test_what_cannot_be_measured_limits_nothing(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """If measuring fails, the service starts with all slots."""

    monkeypatch.setattr("streamer.commands.capacity.session_limit.SPEECH", "no speech")
    async with opened(triton.grpc_address) as models:
        assert await Finding(None)(models) is None


def test_speech() -> None:
    """The package contains speech for the measurement."""
    assert shipped(SPEECH).stat().st_size > 10_000


def test_auto(tmp_path: Path) -> None:
    """`--sessions auto` measures, prints the result, and uses it as the limit."""
    cache = tmp_path / "cache"
    cache.mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    repository = exact_repository(tmp_path / "exact")
    # One slot besides the probe's, so that there is one number to measure.
    with (
        TritonServer(repository, models=[MODEL], slots=2, instances=1) as triton,
        serving("--triton", triton.grpc_address, "--sessions", "auto", environment=environment) as served,
    ):
        [said] = [line for line in served.lines if re.search(r" sessions? at a time", line)]
        assert served.state["sessions_limit"] == int(said.split()[1]) == 1
        # Nobody asked for the sessions of the measurement, so nobody reads of them.
        assert not [line for line in served.lines if " session=" in line]
        assert served.end() == 0
    # Changes of a Triton elsewhere cannot be noticed, so nothing is remembered.
    assert list(cache.iterdir()) == []


def test_a_number(triton: TritonServer) -> None:
    """`--sessions N` sets the limit."""
    with serving("--triton", triton.grpc_address, "--sessions", "2") as served:
        assert served.state["sessions_limit"] == 2
        assert served.end() == 0


@pytest.mark.parametrize("wrong", ["0", "-1", "many", ""])
def test_no_number(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Other values are refused."""
    assert run(["serve", "--sessions", wrong]) == 2
    assert "--sessions must be 1 or more, or 'auto', not" in capsys.readouterr().err
