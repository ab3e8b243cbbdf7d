"""A Triton that soon forgets silent sequences, and keys and certificates for access tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.bridge.access.keys import KeyFile
from streamer.triton.server import TritonServer
from tests.bridge.access.bare_port import ALICE, BOB
from tests.bridge.access.certificate_authority import Authority


@pytest.fixture(scope="module")
def brief_triton(brief_repository: Path) -> Iterator[TritonServer]:
    """Provide a Triton with a short idle limit and few slots."""
    with TritonServer(brief_repository, slots=4) as server:
        yield server


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    """Provide the keys of Alice and Bob."""
    (tmp_path / "keys").write_text(f"{ALICE.line}\n{BOB.line}\n")
    return KeyFile(tmp_path / "keys")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Provide a certificate authority."""
    return Authority(tmp_path)
