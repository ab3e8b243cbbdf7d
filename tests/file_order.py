"""Begins with the files of tests that take longest, so that no process is idle at the end; measures how long they take.

Each run keeps its times in the cache of pytest, for the next one. A fresh clone has none: for it, `make test-times`
writes them into a record that is committed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).with_name("file_times.json")
KEPT = "streamer/file_times"  # where they are in the cache
CACHE = ROOT / ".pytest_cache"

Times = Mapping[str, float]
"""Seconds by file, with its path from the root."""


def pytest_configure(config: pytest.Config) -> None:
    """Measure, unless this is a process that another one started, to which it reports."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Stopwatch(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort whole files. Within a file, the order of the tests stays."""
    expected = expected_times(Counter(map(_file_of, items)), {**read(RECORD), **_kept(config)})
    items.sort(key=lambda item: -expected[_file_of(item)])


def expected_times(tests: Mapping[str, int], measured: Times) -> dict[str, float]:
    """Return how long each file will take, from the number of its tests.

    A file that was not measured takes as long for each of its tests as those beside it, or else in the folder above.
    """
    known: defaultdict[PurePosixPath, list[float]] = defaultdict(lambda: [0.0, 0])  # seconds and tests, by folder
    for file in sorted(tests.keys() & measured.keys()):  # in each process: a sum depends on its order
        for folder in PurePosixPath(file).parents:
            known[folder][0] += measured[file]
            known[folder][1] += tests[file]

    def estimate(file: str) -> float:
        nearest = next((known[folder] for folder in PurePosixPath(file).parents if folder in known), [0.0, 1])
        return tests[file] * nearest[0] / nearest[1]

    return {file: measured[file] if file in measured else estimate(file) for file in tests}


class Stopwatch:
    """How long the files of a run take."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._times: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a test took, with its fixtures."""
        self._times[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Keep the times, if the files ran as a whole."""
        cache = _cache(self._config)
        if cache and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not _chooses(self._config):
            cache.set(KEPT, {**_kept(self._config), **{file: round(time, 1) for file, time in self._times.items()}})


def _chooses(config: pytest.Config) -> bool:
    """Whether a run may have left out tests of a file."""
    options = ("keyword", "markexpr", "deselect", "lf", "maxfail", "stepwise")
    return any(config.getoption(name, None) for name in options) or any("::" in argument for argument in config.args)


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _kept(config: pytest.Config) -> Times:
    cache = _cache(config)
    return dict(cache.get(KEPT, {})) if cache else {}


def _cache(config: pytest.Config) -> pytest.Cache | None:
    return getattr(config, "cache", None)  # there is none if its plugin was turned off


def read(path: Path) -> Times:
    """Return the times in a file; none if there is no such file."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def write_record(kept: Path = CACHE / "v" / KEPT) -> None:
    """Write what was measured on this machine into the record. Files that are gone leave it."""
    measured = read(kept)
    if not measured:
        sys.exit("Nothing was measured here yet: run `make test` first.")
    times = {file: time for file, time in {**read(RECORD), **measured}.items() if (ROOT / file).exists()}
    slowest_first = dict(sorted(times.items(), key=lambda each: (-each[1], each[0])))
    RECORD.write_text(json.dumps(slowest_first, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_record()
