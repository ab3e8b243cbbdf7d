"""The measurement of the Tab key, of the command as it is."""

from __future__ import annotations

from pathlib import Path

from scripts.measure.tab_key import answered


def test_an_answer_is_timed(tmp_path: Path) -> None:
    """It takes some time, and processor time."""
    wall, processor = answered("streamer serve --", tmp_path / "answer")
    assert 0 < processor < 10_000
    assert wall > 0
