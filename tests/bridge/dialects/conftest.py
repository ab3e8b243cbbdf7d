"""A service that recognises exactly, for clients in foreign formats."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamer.bridge.access.quotas import UploadLimits
from streamer.bridge.access.rules import PortPolicy
from streamer.testing.exact_service import ExactService

DECODERS = 2
SESSIONS = 3  # one slot is for probes


@pytest.fixture(scope="package")
def exact() -> Iterator[ExactService]:
    """Provide the service."""
    with ExactService(slots=SESSIONS + 1, policy=PortPolicy(uploads=UploadLimits(most=DECODERS))) as service:
        yield service
