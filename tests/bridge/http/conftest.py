"""A port without a recogniser."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from streamer.bridge.server import BridgeServer
from tests.bridge.access.bare_port import listening


@pytest.fixture
async def server() -> AsyncIterator[BridgeServer]:
    """Provide a port that answers plain HTTP and refuses sessions."""
    async with listening() as server:
        yield server
