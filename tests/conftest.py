"""What all tests share: a real Triton with the shipped model, a service in front of it, and a faster repository."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Tests run small computations, often beside a server, so one thread each is fastest. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from streamer.bridge.service import Service
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.telemetry.failures import Failures
from streamer.testing.exact_repository import exact_repository
from streamer.triton import MODEL
from streamer.triton.repository import asr_repository
from streamer.triton.server import TritonServer
from tests.command_run import Said, write_said
from tests.samples import TWO_SEGMENTS_S, write_beginning
from tests.triton_processes import streams_gone

HERE = Path(__file__).parent

# More processes than two cores have: many tests wait for speech at its own pace.
PROCESSES = 4

# The slowest files, in descending order. They begin first, so that no process is idle at the end.
LONGEST = (
    "web/test_page.py",
    "web/test_page_recordings.py",
    "web/test_page_speaking.py",
    "web/test_page_access.py",
    "asr_repo/test_asr_heads.py",
    "web/test_microphone.py",
    "web/test_session_losses.py",
    "commands/test_mic.py",
    "bridge/upstreams/test_rollover.py",
    "bridge/test_recovery.py",
    "bridge/upstreams/test_instances.py",
    "commands/test_batch.py",
    "test_cli.py",
    "test_documents.py",
    "bridge/upstreams/test_failed_rollover.py",
    "bridge/upstreams/test_rollover_elsewhere.py",
    "scripts/service/test_soak.py",
    "test_tour.py",
    "asr_repo/test_stream_options.py",
    "triton/test_server.py",
    "asr_repo/test_streaming_asr.py",
    "commands/test_evaluate.py",
    "web/test_recording.py",
    "commands/test_serve.py",
    "commands/test_serve_models.py",
    "test_long_session.py",
    "scripts/service/test_attack.py",
    "commands/test_plan.py",
    "deploy/test_proxies.py",
    "web/test_session.py",
    "bridge/test_clients.py",
    "commands/test_completion.py",
    "web/page/test_history.py",
    "bridge/test_audio_kinds.py",
    "commands/test_transcribe.py",
    "commands/test_doctor.py",
    "engine/search/test_beam_search.py",
    "engine/test_pauses.py",
    "bridge/uploads/test_uploads.py",
    "client/test_restart.py",
    "bridge/test_resumed_kinds.py",
    "web/test_kept_audio.py",
    "testing/load/test_overload.py",
    "bridge/upstreams/test_tritons.py",
    "commands/test_roll.py",
    "bridge/test_flow.py",
    "testing/load/test_costly_sessions.py",
    "scripts/docs/test_repository_pages.py",
    "scripts/train/test_train_acoustic.py",
    "web/test_other_site.py",
    "triton/test_link.py",
    "testing/graphs/test_comparison.py",
    "engine/test_marks.py",
    "engine/test_recogniser.py",
    "bridge/scaling/test_instance_count.py",
    "web/page/test_queue.py",
    "web/test_browsing.py",
    "web/test_decoding.py",
    "test_wheel.py",
    "scripts/measure/test_compare_pocketsphinx.py",
    "scripts/train/test_train_punctuation.py",
    "test_drain.py",
    "bridge/session/test_generated_sessions.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort whole files. Within a file, the order of the tests stays."""
    order = {HERE / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect garbage only among what the tests make, as what is imported for them stays until the end.

    To look through all of that again and again takes a quarter of the processor time until the first test.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)  # one of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """How many processes run all tests."""
    return PROCESSES


# What asyncio of Python 3.10 says when a TLS transport is deleted that nobody has closed, although the other side has
# ended the connection. Later ones count it as closed then. Clients of `websockets` leave the end of a connection to
# the service, so they never close it. Our own service does (bridge/http/channel.py).
UNCLOSED_BY_ASYNCIO = r"unclosed transport <asyncio\.sslproto\._SSLProtocolTransport"


def pytest_configure(config: pytest.Config) -> None:
    """Restore signals: a shell in the background, or nohup, makes the tests and their processes ignore some."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if sys.version_info < (3, 11):
        config.addinivalue_line("filterwarnings", f"ignore:{UNCLOSED_BY_ASYNCIO}:ResourceWarning")


@pytest.fixture(scope="session")
def failures_inside() -> Iterator[list[str]]:
    """The unexpected failures of services in this process, and unhandled errors of the event loop."""
    reported: list[str] = []
    report = Failures.report

    def noted(self: Failures, event: str, error: BaseException, **fields: Any) -> None:
        reported.append("".join([f"{event} {fields}\n", *traceback.format_exception(error)]))
        report(self, event, error, **fields)

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            reported.append(logging.Formatter().format(record))

    handler = Noting(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Failures, "report", noted)
        logging.getLogger("asyncio").addHandler(handler)
        yield reported
        logging.getLogger("asyncio").removeHandler(handler)


@pytest.fixture(autouse=True)
def _nothing_fails_inside(request: pytest.FixtureRequest, failures_inside: list[str]) -> Iterator[None]:
    """Fail a test if a service had an unexpected failure, even if the client did not notice it."""
    failures_inside.clear()
    yield
    if "fails_inside" in request.keywords:
        assert failures_inside
    else:
        assert not failures_inside, "\n".join(failures_inside)


@pytest.fixture(scope="session", autouse=True)
def _no_models_of_this_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide the public models of whoever runs the tests: a default among them would be used in place of the shipped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a user of a container: without a name, and so without a home folder."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 2_000_000_000)


@pytest.fixture(autouse=True)
def _the_log_is_as_before() -> Iterator[None]:
    """Restore what is logged: a command that a test runs in this process chooses its own level."""
    logger = logging.getLogger("streamer")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture(scope="session")
def shipped_triton() -> Iterator[TritonServer]:
    """The embedded Triton with `streaming_asr`."""
    with TritonServer(asr_repository(), models=[MODEL]) as server:
        yield server


@pytest.fixture(scope="session")
def exact_triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A Triton with an exact model. It starts in a tenth of the processor time, and recognises in a tenth."""
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
        asyncio.run(streams_gone(request.getfixturevalue("triton")))


@contextmanager
def serving(triton: TritonServer) -> Iterator[Service]:
    """A service on its own port in a thread."""
    opened: list[tuple[Service, asyncio.AbstractEventLoop, asyncio.Event]] = []
    ready = threading.Event()

    async def serve() -> None:
        try:
            # A killed client leaves its session behind, and others that share the Triton wait for its slots.
            async with Service(triton.grpc_address, port=0, limits=Limits(resume_s=5.0)) as running:
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
    return str(write_beginning(tmp_path_factory.mktemp("recording") / "talk.flac", "talk.flac", TWO_SEGMENTS_S))


@pytest.fixture(scope="session")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """Recordings for an exact model."""
    return write_said(tmp_path_factory.mktemp("said"))
