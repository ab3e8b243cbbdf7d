"""A Triton with an exact model, and a certificate authority that clients of a test trust."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.testing.exact_repository import exact_repository
from streamer.triton.server import TritonServer
from tests.bridge.access.certificate_authority import Authority


@pytest.fixture(scope="module")
def exact_triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """Provide a Triton that recognises test audio exactly."""
    with TritonServer(exact_repository(tmp_path_factory.mktemp("repository")), slots=16) as server:
        yield server


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """Provide a certificate authority. Clients in this process trust it."""
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.root))
    return authority
