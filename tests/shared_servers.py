"""Fixtures that rooms share: a real Triton, a service in front of it, and recordings for both.

A light environment lacks the packages that a server needs, so each fixture imports them by itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from streamer.bridge.service import Service
    from streamer.bridge.triton.server import TritonServer
    from tests.command_run import Said


@pytest.fixture(scope="session")
def installed_server() -> None:
    """Skip a test that starts a server where only another part is installed."""
    if find_spec("tritonclient") is None or find_spec("pytriton") is None:
        pytest.skip("it starts a service: pip install 'streamer-asr[embedded]'")


@pytest.fixture(scope="session")
def shipped_triton(installed_server: None) -> Iterator[TritonServer]:
    """The embedded Triton with `streaming_asr`."""
    from streamer.bridge.triton import MODEL
    from streamer.bridge.triton.repository import asr_repository
    from streamer.bridge.triton.server import TritonServer

    with TritonServer(asr_repository(), models=[MODEL]) as server:
        yield server


@pytest.fixture(scope="session")
def exact_triton(installed_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A Triton with an exact model. It starts in a tenth of the processor time, and recognises in a tenth."""
    from streamer.bridge.triton.server import TritonServer
    from streamer.testing.exact_service import exact_repository

    with TritonServer(exact_repository(tmp_path_factory.mktemp("exact"))) as server:
        yield server


@pytest.fixture(scope="session")
def triton(shipped_triton: TritonServer) -> TritonServer:
    """The Triton of a test: the shipped one, unless a file or folder chooses the exact one."""
    return shipped_triton


@pytest.fixture(scope="module", autouse=True)
def no_streams_of_others(request: pytest.FixtureRequest) -> None:
    """Tests that look for open streams must not find those of an earlier file: wait until these have expired."""
    if hasattr(request.module, "no_streams"):
        from tests.triton_processes import streams_gone

        asyncio.run(streams_gone(request.getfixturevalue("triton")))


@contextmanager
def serving(triton: TritonServer, **settings: Any) -> Iterator[Service]:
    """A service on its own port in a thread."""
    from streamer.bridge.service import Service
    from streamer.bridge.session.deadlines import Limits

    opened: list[tuple[Service, asyncio.AbstractEventLoop, asyncio.Event]] = []
    ready = threading.Event()

    async def serve() -> None:
        try:
            # A killed client leaves its session behind, and others that share the Triton wait for its slots.
            async with Service(triton.grpc_address, port=0, limits=Limits(resume_s=5.0), **settings) as running:
                over = asyncio.Event()
                opened.append((running, asyncio.get_running_loop(), over))
                ready.set()
                await over.wait()
        finally:
            ready.set()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="service")
    thread.start()
    ready.wait(60)
    [(running, loop, over)] = opened
    yield running
    loop.call_soon_threadsafe(over.set)
    thread.join(60)


@pytest.fixture(scope="session")
def shipped_service(shipped_triton: TritonServer) -> Iterator[Service]:
    """A service with the shipped model, for tests that are not asynchronous or that start processes."""
    with serving(shipped_triton) as running:
        yield running


@pytest.fixture(scope="session")
def exact_service(exact_triton: TritonServer) -> Iterator[Service]:
    """The same with an exact model."""
    with serving(exact_triton) as running:
        yield running


@pytest.fixture(scope="session")
def service(shipped_service: Service) -> Service:
    """The service of a test: the shipped model, unless a file or folder chooses the exact one."""
    return shipped_service


@pytest.fixture(scope="session")
def talk(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a file `talk.flac` with two segments."""
    from tests.samples import TWO_SEGMENTS_S, write_beginning

    return str(write_beginning(tmp_path_factory.mktemp("recording") / "talk.flac", "talk.flac", TWO_SEGMENTS_S))


@pytest.fixture(scope="session")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """Recordings for an exact model."""
    from tests.command_run import write_said

    return write_said(tmp_path_factory.mktemp("said"))
