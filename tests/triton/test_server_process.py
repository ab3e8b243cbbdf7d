"""Loading and unloading models while a server runs."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from streamer.triton import TritonError
from streamer.triton.server import TritonServer

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
