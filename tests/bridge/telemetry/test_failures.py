"""Failures inside the service are visible, and cannot fill the log."""

from __future__ import annotations

import logging

import pytest

from streamer.bridge.telemetry import failures
from streamer.bridge.telemetry.failures import Failures


def fail(way: str) -> Exception:
    try:
        if way == "here":
            raise ValueError("one")
        raise ValueError("two")
    except ValueError as error:
        return error


@pytest.mark.fails_inside
def test_each_is_counted_and_one_of_a_kind_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure is logged with its traceback, and again after a minute with the number of repetitions."""
    counted: list[None] = []
    reported = Failures(lambda: counted.append(None))
    with caplog.at_level(logging.ERROR, logger="streamer"):
        for way in ("here", "there", "here", "here"):
            reported.report("it failed", fail(way), path="/")
        assert [record.getMessage() for record in caplog.records] == ["it failed"] * 2
        assert "ValueError: one" in caplog.text
        assert 'raise ValueError("two")' in caplog.text
        monkeypatch.setattr(failures, "AGAIN_S", 0.0)
        reported.report("it failed", fail("here"))
    assert len(counted) == 5
    assert vars(caplog.records[-1])["fields"] == {"unsaid": 2}


@pytest.mark.fails_inside
def test_an_error_that_was_never_raised() -> None:
    """An error that was never raised has no traceback, but counts."""
    counted: list[None] = []
    Failures(lambda: counted.append(None)).report("it failed", ValueError("made"))
    assert len(counted) == 1
