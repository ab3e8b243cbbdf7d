"""A web server with archives, and a folder with a small model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.models.library import ModelLibrary
from tests.models.archive_shelf import Quiet, Shelf, archive_shelf
from workshop.graphs.exact_icefall import make_ctc_folder


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    """A server without archives."""
    with archive_shelf() as shelf:
        yield shelf


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a public model that takes a few kilobytes."""
    return make_ctc_folder(tmp_path_factory.mktemp("small"))


@pytest.fixture
def library(tmp_path: Path) -> ModelLibrary:
    """A library without models."""
    return ModelLibrary(tmp_path / "models")


@pytest.fixture
def quiet() -> Quiet:
    """An observer."""
    return Quiet()
