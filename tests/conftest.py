"""What every test needs, in the smallest environment too: pytest and the package itself.

Rooms have their own fixtures. tests/shared_servers.py has those that several rooms share.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import traceback
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from streamer.bridge.telemetry.logs import Failures

# Tests run small computations, often beside a server, so one thread each is fastest. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

pytest_plugins = ("tests.file_order", "tests.flaky_tests", "tests.shared_servers")

# More processes than two cores have: many tests wait for speech at its own pace.
PROCESSES = 4

# What pyproject.toml sets for plugins that only some rooms need.
SETTINGS = {"asyncio": ("asyncio_mode", "asyncio_default_fixture_loop_scope"), "timeout": ("timeout",)}


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Know the settings of a plugin that is not installed, as pytest refuses unknown ones."""
    for plugin, settings in SETTINGS.items():
        if not pluginmanager.hasplugin(plugin):
            for setting in settings:
                parser.addini(setting, f"a setting of pytest-{plugin}, which is not installed")


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
    if not config.pluginmanager.hasplugin("timeout"):
        config.addinivalue_line("markers", "timeout(seconds): the limit of a test, which pytest-timeout watches")
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
