"""Services, recordings, and the Python that has the clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.keys import KeyFile, make_key
from streamer.bridge.access.quotas import Fetch, UploadLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.testing import say
from streamer.testing.exact_service import ExactService
from tests.bridge.access.certificate_authority import Authority
from tests.bridge.dialects.realtime_client import slowly, spoken
from tests.bridge.uploads.uploading import recording, sentences
from tests.clients.running import CLIENTS

collect_ignore_glob = [] if CLIENTS else ["test_*.py"]
KEY = make_key("anna")


@pytest.fixture(scope="package")
def exact() -> Iterator[ExactService]:
    """Provide a service that recognises exactly."""
    with ExactService(slots=4) as service:
        yield service


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Provide the authority whose certificate `guarded` has."""
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="package")
def guarded(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExactService]:
    """Provide a service with a certificate and one key, KEY, that takes one session at a time, and fetches."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{KEY.line}\n")
    access, certificate = AccessRules(KeyFile(keys)), Certificate(authority.chain, authority.key)
    policy = PortPolicy(access, certificate, uploads=UploadLimits(fetch=Fetch.ANY))
    with ExactService(slots=2, policy=policy) as service:  # one slot is for probes
        yield service


@pytest.fixture
def turn(tmp_path: Path) -> Path:
    """Provide a recording that ends with its last word: hello world, goodbye."""
    path = tmp_path / "turn.wav"
    path.write_bytes(recording(np.concatenate([sentences(say("hello world")), say("goodbye")])))
    return path


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Provide a recording of two sentences: hello world, goodbye."""
    path = tmp_path / "talk.wav"
    path.write_bytes(recording(sentences(say("hello world"), say("goodbye"))))
    return path


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Provide samples at 24 kHz: hello, and goodbye after a pause."""
    path = tmp_path / "talk.raw"
    path.write_bytes(spoken(slowly("hello", 24_000), slowly("goodbye", 24_000), pause_ms=3000).tobytes())
    return path
