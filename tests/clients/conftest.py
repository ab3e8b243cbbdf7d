"""A service, and the Python that has the clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamer.testing import say
from streamer.testing.exact_service import ExactService
from tests.bridge.uploads.uploading import recording, sentences
from tests.clients.running import CLIENTS

collect_ignore_glob = [] if CLIENTS else ["test_*.py"]


@pytest.fixture(scope="package")
def exact() -> Iterator[ExactService]:
    """Provide a service that recognises exactly."""
    with ExactService(slots=4) as service:
        yield service


@pytest.fixture
def turn(tmp_path: Path) -> Path:
    """Provide the same, but it ends with its last word."""
    path = tmp_path / "turn.wav"
    path.write_bytes(recording(np.concatenate([sentences(say("hello world")), say("goodbye")])))
    return path


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Provide a recording of two sentences: hello world, goodbye."""
    path = tmp_path / "talk.wav"
    path.write_bytes(recording(sentences(say("hello world"), say("goodbye"))))
    return path
