"""The line about public models."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.doctor import packages
from streamer.doctor.finding import FINE, WARNING, WRONG
from streamer.doctor.public_models import public_models
from streamer.library.model_library import ModelLibrary
from streamer.testing.graphs.exact_zipformer2 import make_ctc_folder


@pytest.fixture
def library(tmp_path: Path) -> ModelLibrary:
    """A library with one model."""
    (tmp_path / "mine").mkdir()
    make_ctc_folder(tmp_path / "mine")
    return ModelLibrary(tmp_path)


def test_no_models(tmp_path: Path) -> None:
    """Without public models, the shipped one is the default."""
    (found,) = public_models(ModelLibrary(tmp_path / "none"))
    assert (found.state, found.said) == (FINE, "none is here; the shipped model is the default")


def test_models(library: ModelLibrary, tmp_path: Path) -> None:
    """Models are listed with the default; an interrupted one is named with the command that continues it."""
    library.set_default("mine")
    (library.work_folder("begun") / "archive.part").touch()
    begun, listed = public_models(library)
    assert (begun.state, begun.remedy) == (WARNING, "streamer models get begun")
    assert (listed.state, listed.said) == (FINE, f"1 in {tmp_path}: mine; mine is the default")


def test_a_broken_model(library: ModelLibrary) -> None:
    """A broken model is a warning, because others work; a model of the catalogue can be fetched again."""
    for name in ("sherpa-onnx-streaming-zipformer-en-2023-06-26", "unknown"):
        (library.folder / name).mkdir()
    known, unknown, listed = public_models(library)
    assert (known.state, unknown.state, listed.state) == (WARNING, WARNING, FINE)
    assert "the model unknown cannot be used: " in unknown.said
    assert known.remedy == "streamer models get sherpa-onnx-streaming-zipformer-en-2023-06-26"
    assert unknown.remedy == "streamer models remove unknown"


def test_too_little_memory(library: ModelLibrary) -> None:
    """A model that does not fit is named, and what to do if all of them do not fit at a time."""
    (library.folder / "other").mkdir()
    make_ctc_folder(library.folder / "other")
    small, other, _ = public_models(library, 100_000_000)
    assert (small.state, other.state) == (WARNING, WARNING)
    assert "mine needs about 0.2 GB of memory, and models may hold 0.1 GB here" in small.said
    together, _ = public_models(library, 200_000_000)
    assert "all of them together need about 0.3 GB" in together.said
    assert together.remedy == "streamer serve --model library --load on-demand"
    (listed,) = public_models(library, 10**9)
    assert listed.state == FINE


@pytest.mark.parametrize(("light", "state"), [(False, WRONG), (True, WARNING)])
def test_a_default_that_does_not_work(
    library: ModelLibrary, monkeypatch: pytest.MonkeyPatch, light: bool, state: str
) -> None:
    """A default that does not work is a problem, unless only the light client is installed."""
    monkeypatch.setattr(packages, "is_light", lambda: light)
    library.set_default("mine")
    (library.folder / "mine" / "tokens.txt").unlink()
    (found,) = public_models(library)
    assert found.state == state
    assert "the default does not work: the model mine cannot be used: " in found.said
    assert found.remedy == "streamer models default shipped, or: streamer models get mine"
