"""Names the tests that failed among others and pass alone: `make test` runs once more what failed, with this option."""

from __future__ import annotations

from collections.abc import Collection

import pytest

LAST_FAILED = "cache/lastfailed"  # where pytest keeps what failed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    telling = "end with a line `flaky: TEST` for each test that failed in the last run and passes in this one"
    parser.addoption("--tell-flaky", action="store_true", help=telling)


def pytest_configure(config: pytest.Config) -> None:
    """Look up what failed, before this run forgets it."""
    if config.getoption("--tell-flaky"):
        assert config.cache is not None
        config.pluginmanager.register(FlakyTests(config, config.cache.get(LAST_FAILED, {})))


class FlakyTests:
    """Of the tests that failed, those that pass in this run."""

    def __init__(self, config: pytest.Config, failed: Collection[str]) -> None:
        self._config = config
        self._failed_before = failed
        self._passed: set[str] = set()
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test and its fixtures end."""
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def pytest_unconfigure(self) -> None:
        """Write the lines, after all that pytest itself writes."""
        terminal = self._config.get_terminal_writer()
        for test in sorted((self._passed - self._failed).intersection(self._failed_before)):
            terminal.line(f"flaky: {test}")
