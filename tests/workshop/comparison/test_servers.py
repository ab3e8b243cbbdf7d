"""The comparison of our service with the server of sherpa-onnx."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.project import ROOT
from workshop.comparison.servers import (
    BEGIN,
    END,
    OURS,
    THEIRS,
    Comparison,
    NotMeasured,
    knees,
    load,
    ratio,
    section,
    sherpa,
    spread,
    table,
)
from workshop.graphs.exact_icefall import make_transducer_folder


def report(last: float, limit: str = "last words", knee: float = 24.0) -> Mapping[str, Any]:
    """What a measurement of one level found."""
    delays = {"p50": last / 2, "p95": last}
    work = {"cpu_ms_per_audio_s": 10.0, "memory_mb": 100.0}
    level = {
        "sessions": 8,
        "delays_s": {"last": delays, "word": None},
        "processes": {"bridge": work, "model": work, "clients": work, "this command": work},
        "words": {"rate": 0.1},
        "refused": {"full": 1},
    }
    return {"levels": [level], "knee": {"sessions": knee, "limit": limit}}


def test_the_table() -> None:
    """A cell has the median of all rounds, and the least and the most; the clients do not count."""
    lines = table({THEIRS: [report(0.2)], OURS: [report(0.2), report(0.4), report(0.3)]}).splitlines()
    assert lines[2:] == [
        "| 8 | sherpa-onnx | 0.10 | 0.20 | - | 10.0 | 20.0 | 200 | 1 |",
        "| 8 | Streamer | 0.15 (0.10-0.20) | 0.30 (0.20-0.40) | - | 10.0 | 20.0 | 200 | 1 |",
    ]
    assert spread([1.0, 1.04], ".1f") == "1.0"


def test_the_knees() -> None:
    """A sentence says where the knee is, or that it was not reached, or that nothing holds."""
    assert list(knees({OURS: [report(0.2), report(0.2, knee=30.0)]})) == [
        "Streamer: the knee is at 27 (24-30) sessions."
    ]
    [beyond] = knees({OURS: [report(0.2, "not reached")]})
    assert beyond == "Streamer: the knee was not reached in each round; it is beyond 24 sessions."
    [nothing] = knees({OURS: [report(0.2, knee=0.0)]})
    assert "not even the first number" in nothing
    assert list(knees({OURS: [{"levels": [], "knee": None}]})) == []


def test_the_ratio() -> None:
    """The sessions in time are interpolated in each round, and the ratio is that of the same round."""

    def rounds(*lasts: float) -> list[Mapping[str, Any]]:
        levels = [(level(10, 0.1), level(20, last)) for last in lasts]
        return [{"levels": each, "knee": None} for each in levels]

    def level(sessions: int, last: float) -> Mapping[str, Any]:
        return {**report(last)["levels"][0], "sessions": sessions, "refused": {}, "failed": {}}

    assert list(ratio({THEIRS: rounds(0.35, 1.2), OURS: rounds(1.2, 1.2)})) == [
        "sherpa-onnx: 16 (12-20) sessions with 95 of 100 last words within 0.35 s.",
        "Streamer: 12 sessions with 95 of 100 last words within 0.35 s.",
        "Streamer carries 0.80 (0.60-1.00) times as many as sherpa-onnx.",
    ]


def test_the_section_of_a_page() -> None:
    """Only what stands between the marks is replaced, and a page without marks is refused."""
    page = f"# Title\n\n{BEGIN}\nold\n\n{END}\nafter\n"
    assert section(page, "new\n") == f"# Title\n\n{BEGIN}\nnew\n\n{END}\nafter\n"
    assert "new" in section((ROOT / "docs/explanation/performance.md").read_text(encoding="utf-8"), "new")
    with pytest.raises(NotMeasured, match="has no marks"):
        section("# Title\n", "new")


def test_how_long_a_round_takes() -> None:
    """The time of a round counts both servers, with their starts and all levels."""
    comparison = Comparison(Path(), "10,100", 15.0, 3, [], "")
    assert 2 * 2 * 15.0 < comparison.round_s < 120.0


def test_our_side(tmp_path: Path) -> None:
    """Our service is started with the folder, and measured."""
    folder = make_transducer_folder(tmp_path)
    comparison = Comparison(folder, "1", 1.0, 1, [], "")
    found = load(comparison, "--server", "embedded", "--model", str(folder))
    assert [level["sessions"] for level in found["levels"]] == [1]
    assert str(folder) in found["service"]
    with pytest.raises(NotMeasured, match="missing"):
        load(Comparison(folder, "1", 1.0, 1, [str(tmp_path / "missing.flac")], ""), "--server", "embedded")


def test_their_side_does_not_start(tmp_path: Path) -> None:
    """If the server ends at once, its last lines are the reason."""
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\necho 'no such model'\nexit 1\n")
    program.chmod(0o755)
    folder = tmp_path / "model"
    folder.mkdir()
    with (
        pytest.raises(NotMeasured, match="did not start:\nno such model"),
        sherpa(program, make_transducer_folder(folder), 1),
    ):
        pass
