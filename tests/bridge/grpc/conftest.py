"""A service that recognises exactly, with a port for gRPC."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamer.bridge.access.rules import PortPolicy
from streamer.testing.exact_service import ExactService
from tests.bridge.grpc.grpc_client import Client

ANY = ("127.0.0.1", 0)
SESSIONS = 3  # one slot is for probes


@pytest.fixture(scope="package")
def exact() -> Iterator[ExactService]:
    """Provide the service."""
    with ExactService(slots=SESSIONS + 1, policy=PortPolicy(grpc=ANY)) as service:
        yield service


@pytest.fixture
def client(exact: ExactService) -> Iterator[Client]:
    """Provide a connection to the service."""
    with Client(exact.grpc_port) as connected:
        yield connected
