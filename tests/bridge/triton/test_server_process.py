"""A server's models while it runs, and its folders and shared memory beside files of other users."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from streamer.bridge.triton import TritonError, server_folder
from streamer.bridge.triton.server import TritonServer

MODELS = Path(__file__).parent / "models"


@pytest.mark.parametrize("settings", [{}, {"instances": 2}])
def test_another_model_while_it_runs(place: Any, tmp_path: Path, settings: dict[str, Any]) -> None:
    """A model that is added to the repository later is loaded with our settings, and by another start too."""
    repository = tmp_path / "repository"
    shutil.copytree(MODELS / "good", repository)
    with TritonServer(repository, models=["probe"], **settings) as running:
        shutil.copytree(MODELS / "good" / "probe", repository / "later")
        config = repository / "later" / "config.pbtxt"
        config.write_text(config.read_text().replace('name: "probe"', 'name: "later"'))
        running.load("later")
        assert running.models == ("probe", "later")
        assert count(running, "later") == settings.get("instances", count(running, "probe"))
        running.unload("probe")
        assert running.models == ("later",)
        running.kill()
        running.start()
        running.wait_ready()
        assert ready(running, "later")
        assert not ready(running, "probe")
    assert not place.leftovers()


def test_a_model_that_cannot_be_loaded(place: Any, tmp_path: Path) -> None:
    """The server's own words say why, and nothing else changes."""
    repository = tmp_path / "repository"
    shutil.copytree(MODELS / "good", repository)
    shutil.copytree(MODELS / "bad" / "broken", repository / "broken")
    with TritonServer(repository, models=["probe"]) as running:
        with pytest.raises(TritonError, match="Triton could not load broken: load failed for model 'broken'"):
            running.load("broken")
        with pytest.raises(TritonError, match="there is no model nothing in "):
            running.load("nothing")
        assert running.models == ("probe",)
        assert ready(running, "probe")


def ready(server: TritonServer, model: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{server.http_address}/v2/models/{model}/ready", timeout=60) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False


def count(server: TritonServer, model: str) -> int:
    """Return the number of its instances."""
    with urllib.request.urlopen(f"http://{server.http_address}/v2/models/{model}/config", timeout=60) as answer:
        return int(sum(group["count"] for group in json.load(answer)["instance_group"]))


GOOD = Path(__file__).parent / "models" / "good"
# Characters that are special in a pattern.
ODD_NAMES = (
    "streamer-triton-**",
    "streamer-triton-?",
    "streamer-triton-[a-z]",
    "streamer-triton-",
    "streamer-triton-*",
)


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make shared memory of our user."""
    folder = tmp_path / "memory"
    folder.mkdir()
    monkeypatch.setattr(server_folder, "SHARED_MEMORY", folder)
    return folder


def dead(parent: Path, name: str = "streamer-triton-deadbeef") -> Path:
    """Make a folder that is not used any more."""
    (parent / name / "backends").mkdir(parents=True)
    return parent / name


def test_a_dead_server_is_swept(tmp_path: Path, memory: Path) -> None:
    """The folder and memory of a dead server are removed; the memory of a server with a longer name stays."""
    folder = dead(tmp_path)
    for name in (f"{folder.name}-1", f"{folder.name}-2", f"{folder.name}0-1"):
        (memory / name).touch()
    server_folder.sweep(tmp_path)
    assert not folder.exists()
    assert [path.name for path in memory.iterdir()] == [f"{folder.name}0-1"]


def test_one_in_use_is_left(tmp_path: Path, memory: Path) -> None:
    """A folder stays as long as its lock is held."""
    folder = dead(tmp_path)
    (memory / f"{folder.name}-1").touch()
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    server_folder.sweep(tmp_path)
    assert folder.exists()
    assert list(memory.iterdir())
    os.close(lock)
    server_folder.sweep(tmp_path)
    assert not folder.exists()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_are_no_patterns(tmp_path: Path, memory: Path, name: str) -> None:
    """A folder made by others stays, and stands only for its own memory."""
    dead(tmp_path, name)
    living = memory / "streamer-triton-livelive-1"
    living.touch()
    server_folder.sweep(tmp_path)
    server_folder.remove(tmp_path / name)
    assert living.exists()


def test_what_is_of_others_is_left(tmp_path: Path, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that runs as root leaves them too, or others could use it to remove files."""
    folder = dead(tmp_path)
    (memory / f"{folder.name}-1").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    server_folder.sweep(tmp_path)
    server_folder.remove(Path("elsewhere") / folder.name)
    assert folder.exists()
    assert list(memory.iterdir())


def test_links_lead_nowhere(tmp_path: Path, memory: Path) -> None:
    """Links are not followed, neither for a folder nor for memory."""
    elsewhere = dead(tmp_path / "elsewhere")
    (tmp_path / "streamer-triton-linklink").symlink_to(elsewhere)
    server_folder.sweep(tmp_path)
    assert (elsewhere / "backends").exists()
    (tmp_path / "kept").touch(mode=0o644)
    (memory / "streamer-triton-linklink-1").symlink_to(tmp_path / "kept")
    assert list(server_folder.regions(tmp_path / "streamer-triton-linklink")) == []


def test_where_anybody_may_replace_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server gets a folder there, and nothing is removed."""
    folder = dead(tmp_path)
    tmp_path.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(TritonError, match="set TMPDIR to a folder of your own"):
        server_folder.claim()
    server_folder.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [folder]
    tmp_path.chmod(0o1777)
    claimed, lock = server_folder.claim()
    os.close(lock)
    claimed.rmdir()


def test_a_server_starts_beside_such_names(place: Any) -> None:
    """Names that others have chosen do not prevent a start."""
    for name in ODD_NAMES:
        (place.folder / name).mkdir()
    with TritonServer(GOOD) as server:
        assert server.running
    assert {path.name for path in place.folder.iterdir()} == set(ODD_NAMES)
