"""A service with small limits of uploads, and keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamer.bridge.access.quotas import UploadLimits
from streamer.bridge.access.rules import PortPolicy
from streamer.testing.exact_service import ExactService

LARGEST = 3_000_000
LONGEST_S = 60.0


@pytest.fixture(scope="package")
def uploading() -> Iterator[ExactService]:
    """Provide a service that recognises exactly."""
    policy = PortPolicy(uploads=UploadLimits(LARGEST, LONGEST_S, most=3))
    with ExactService(slots=4, policy=policy) as service:
        yield service
