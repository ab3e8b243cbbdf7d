"""The table of test coverage by room, from a report."""

from __future__ import annotations

import json
from pathlib import Path

from tests.scripts.program import run


def test_packages_are_rooms(tmp_path: Path) -> None:
    """Files are added up by the first folder below streamer/; a room without branches has no share of them."""
    summaries = {
        "streamer/wire/native.py": (10, 9, 4, 3),
        "streamer/bridge/server.py": (20, 20, 0, 0),
        "streamer/bridge/http/reader.py": (20, 10, 8, 2),
        "streamer/__main__.py": (50, 50, 0, 0),
    }
    names = "num_statements", "covered_lines", "num_branches", "covered_branches"
    files = {path: {"summary": dict(zip(names, counts, strict=True))} for path, counts in summaries.items()}
    (tmp_path / "coverage.json").write_text(json.dumps({"files": files}))
    assert run("measure/coverage_by_room.py", folder=tmp_path).stdout.splitlines()[2:] == [
        "| `bridge` | 40 | 75 % | 8 | 25 % |",
        "| `modules beside` | 50 | 100 % | 0 | - |",
        "| `wire` | 10 | 90 % | 4 | 75 % |",
        "| `all` | 100 | 89 % | 12 | 42 % |",
    ]
