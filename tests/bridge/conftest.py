"""A Triton that soon forgets silent sequences, patience with slow ones, and keys and certificates for access tests.

The tests of sessions need none of this, and run without the packages for it: a fixture imports what few others need.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamer.bridge.access.keys import KeyFile
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams import probe
from streamer.testing.exact_service import exact_repository
from tests.bridge.access.bare_port import ALICE, BOB
from tests.bridge.service_client import serving

if TYPE_CHECKING:
    from tests.bridge.access.certificate_authority import Authority


@pytest.fixture(scope="session")
def triton(exact_triton: TritonServer) -> TritonServer:
    """Provide a Triton with an exact model: tests of the bridge send `SPOKEN`, and know what is said."""
    return exact_triton


@pytest.fixture(scope="module")
def brief_triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """Provide a Triton with an exact model, a short idle limit and few slots."""
    from tests.triton_processes import soon_forgetting

    repository = exact_repository(tmp_path_factory.mktemp("repository"))
    soon_forgetting(repository)
    with TritonServer(repository, slots=4) as server:
        yield server


@pytest.fixture
def no_answer_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for every answer as long as for the slowest: for tests in which a recogniser is killed or replaced.

    On a busy machine the others are slow while a new one is loaded. That is no failure.
    """
    monkeypatch.setattr(probe, "SHORTEST_S", probe.LONGEST_S)


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    """Provide the keys of Alice and Bob."""
    (tmp_path / "keys").write_text(f"{ALICE.line}\n{BOB.line}\n")
    return KeyFile(tmp_path / "keys")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Provide a certificate authority."""
    from tests.bridge.access.certificate_authority import Authority

    return Authority(tmp_path)


@pytest.fixture
async def service(triton: TritonServer) -> AsyncIterator[Service]:
    """Provide a service in front of a Triton that others use too. At the end, no stream may be left."""
    from tests.triton_processes import no_streams

    async with serving(triton) as service:
        yield service
    await no_streams(triton)
