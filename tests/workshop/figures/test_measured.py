"""The figures that are taken from measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workshop.figures.measured import Effort, Figure, Figures, Measuring, cost, crossing, memory, read


def level(sessions: int, last: float | None, partial: float = 0.1, refused: int = 0) -> dict[str, Any]:
    """A level as `streamer load` reports it."""
    work = {"cpu_ms_per_audio_s": 10.0, "memory_mb": 100.0}
    return {
        "sessions": sessions,
        "delays_s": {"last": last and {"p95": last}, "partial": {"p95": partial}},
        "refused": {"full": refused} if refused else {},
        "failed": {},
        "processes": {"bridge": work, "model": work, "clients": work, "this command": work},
    }


@pytest.mark.parametrize(
    ("levels", "sessions"),
    [
        ([level(10, 0.1), level(20, 0.2), level(30, 0.4)], 25),
        ([level(10, 0.1), level(20, 0.2)], 20),
        ([level(10, 0.4)], 0),
        ([level(10, 0.1), level(20, 0.2, partial=0.3)], 15),
        ([level(10, 0.1), level(20, 0.2, refused=1)], 10),
        ([level(10, None)], 0),
        ([level(5, None), level(10, 0.1), level(20, 0.5)], 15),
    ],
)
def test_the_sessions_within_the_bounds(levels: list[dict[str, Any]], sessions: int) -> None:
    """The number is interpolated between two levels; refusals end it at the level before."""
    assert crossing(levels, {"last": 0.3, "partial": 0.2}) == sessions


def test_what_the_service_uses() -> None:
    """What measures does not count."""
    assert (cost(level(1, 0.1)), memory(level(1, 0.1))) == (20.0, 200.0)


def test_the_file(tmp_path: Path) -> None:
    """What is written is read again."""
    made = Figures("any", 2, "abc", "2026-01-01", "none", 0.0, {"most": Figure(97.4, "so many", "streamer load")})
    made.write(tmp_path / "figures.json")
    assert read(tmp_path / "figures.json") == made


def test_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """One session with the real commands gives every figure that is in the file."""
    monkeypatch.setattr(Measuring, "_auto", lambda *_: None)
    monkeypatch.setattr(Measuring, "_memory", lambda *_: None)
    told: list[str] = []
    found = Measuring(Effort(1.0, (1, 2), (1, 2)), told.append).run()
    missing = set(read().figures) - set(found.figures)
    of_auto = {"auto", "auto_partial", "auto_last", "over_partial", "over_last"}
    assert missing <= of_auto | {"slots_2gb", "slots_4gb", "slots_8gb", "sessions_reader"}
    assert found.figures["cost"].value > 0
    assert found.figures["cost"].command.startswith("streamer load --server embedded --sessions 1,2")
    assert found.others >= 0
