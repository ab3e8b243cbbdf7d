"""What very many sessions leave behind: the slopes, and a run against a service."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from streamer.bridge.service import Service
from streamer.testing import say
from workshop.load.growth import DESCRIPTORS, FOLDERS, MEMORY, Series, Sessions, Watch, left_behind, run, table


def series(values: list[float], every: int = 100) -> Series:
    return Series([every * number for number in range(len(values))], values)


def noise(number: int) -> list[float]:
    return np.random.default_rng(5).normal(0.0, 1.0, number).tolist()


def test_what_grows_and_what_does_not() -> None:
    """Growth below the noise is not certain; a leak is, and so is its size. The beginning does not count."""
    level = [100.0 + each for each in noise(80)]
    leak = [value + 0.4 * number for number, value in enumerate(level)]
    begun = [value - max(0.0, 60.0 - 3 * number) for number, value in enumerate(level)]
    for values, growth in ((level, 0.0), (leak, 4.0), (begun, 0.0)):
        slope = series(values).slope
        assert slope is not None
        assert slope.low < growth < slope.high
        assert slope.growth == pytest.approx(growth, abs=0.3)
    faults = left_behind({("model", MEMORY): series(leak), ("bridge", MEMORY): series(level)})
    assert [fault.split(":")[0] for fault in faults] == ["model"]


def test_few_samples_say_nothing() -> None:
    """There is no slope in what was looked at too rarely."""
    assert series([1.0, 2.0, 3.0]).slope is None
    assert left_behind({("model", MEMORY): series([1.0, 200.0])}) == []


async def test_sessions_one_after_another(exact_service: Service, tmp_path: Path) -> None:
    """All of them are opened and end, and what is there is looked at in between."""
    (tmp_path / "streamer-left").mkdir()
    watch, seen = Watch({"this": os.getpid()}, tmp_path), []

    def show(sessions: Sessions, seconds: float) -> None:
        seen.append(sessions.done)
        assert seconds > 0

    sessions = await run(exact_service.url, say("a word").tobytes(), 6, 2, 2, watch, show)
    assert (sessions.done, sessions.failed, sessions.finals) == (6, {}, 6)
    assert seen == [2, 4, 6]
    assert watch.growth["machine", FOLDERS].values == [1, 1, 1, 1]
    assert min(watch.growth["this", DESCRIPTORS].values) > 2
    assert "| this | MB |" in table(watch.growth)


async def test_failed_sessions_are_counted(tmp_path: Path) -> None:
    """A session that cannot be opened is a failure with its reason."""
    sessions = await run("ws://127.0.0.1:9", b"", 1, 1, 1, Watch({}, tmp_path), lambda *_: None)
    assert sessions.done == 1
    assert sum(sessions.failed.values()) == 1
