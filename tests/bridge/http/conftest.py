"""Ports without a recogniser: the one of the service, and ones with handlers for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from streamer.bridge.server import BridgeServer
from tests.bridge.access.bare_port import listening
from tests.bridge.http import request_handlers, websocket_handler
from tests.bridge.http.reader import Port, port
from tests.bridge.http.request_handlers import Handlers
from tests.bridge.http.websocket_handler import Handler


@pytest.fixture
async def server() -> AsyncIterator[BridgeServer]:
    """Provide a port that answers plain HTTP and refuses sessions."""
    async with listening() as server:
        yield server


@pytest.fixture
def handlers() -> Handlers:
    """Provide the handlers of requests that `opened` has."""
    return Handlers()


@pytest.fixture
async def opened(handlers: Handlers) -> AsyncIterator[Port]:
    """Provide a port with all handlers of requests."""
    async with port(request_handlers.routes(handlers)) as opened:
        yield opened


@pytest.fixture
async def impatient(handlers: Handlers) -> AsyncIterator[Port]:
    """Provide the same port with a limit for heads that is soon over."""
    async with port(request_handlers.routes(handlers), head_limit_s=0.5) as opened:
        yield opened


@pytest.fixture
def handler() -> Handler:
    """Provide the handler of websockets that `sockets` has."""
    return Handler()


@pytest.fixture
async def sockets(handler: Handler) -> AsyncIterator[Port]:
    """Provide a port for websockets."""
    async with port(websocket_handler.routes(handler)) as opened:
        yield opened
