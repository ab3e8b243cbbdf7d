"""The file of usage: what it counts when, and what happens to a file that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

import pytest

from streamer.bridge.telemetry.usage import KEPT_DAYS, KEPT_MONTHS, Usage, UsageError, UsageFile, read_usage
from tests.file_size_limit import most_bytes

DAY_S = 86_400.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


def written(file: UsageFile, totals: dict[str, Usage], now: float) -> None:
    file.settle(totals, {}, now)
    file.write(file.record.text())


def test_days_and_months(tmp_path: Path) -> None:
    """Totals since the start are counted on the day on which they grew, and again after a restart."""
    path = tmp_path / "usage.json"
    file = UsageFile(path)
    totals = {"alice": Usage(1, 2.5, 0), "": Usage(7, 7.0, 7)}
    written(file, totals, at("2026-10-31T23:59"))
    totals["alice"].add(Usage(1, 1.0, 3))
    written(file, totals, at("2026-11-01T00:01"))
    file.close()
    with closing(UsageFile(path)) as again:
        written(again, {"alice": Usage(1, 0.5, 0), "bob": Usage(0, 0.0, 1)}, at("2026-11-01T08:00"))
    record = read_usage(path)
    november = {"alice": Usage(2, 1.5, 3), "bob": Usage(0, 0.0, 1)}
    assert record.days == {"2026-10-31": {"alice": Usage(1, 2.5, 0)}, "2026-11-01": november}
    assert record.months == {"2026-10": {"alice": Usage(1, 2.5, 0)}, "2026-11": november}


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    """Old days and months are dropped."""
    total, begin = Usage(), at("2020-01-15T12:00")
    with closing(UsageFile(tmp_path / "usage.json")) as file:
        for day in range(50 * 31):
            total.add(Usage(1))
            file.settle({"alice": total}, {}, begin + day * DAY_S)
    assert (len(file.record.days), len(file.record.months)) == (KEPT_DAYS, KEPT_MONTHS)
    assert max(file.record.days) == "2024-04-12"


def test_a_full_disk(tmp_path: Path) -> None:
    """What cannot be written leaves the former content whole and nothing beside it, and is written later."""
    path = tmp_path / "usage.json"
    file, now = UsageFile(path), at("2026-11-28T12:00")
    written(file, {"alice": Usage(1)}, now)
    totals = {"alice": Usage(1), **{f"key-{number}": Usage(1) for number in range(100)}}
    with most_bytes(1000), pytest.raises(OSError, match="too large"):
        written(file, totals, now)
    assert read_usage(path).days == {"2026-11-28": {"alice": Usage(1)}}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["usage.json", "usage.json.lock"]
    written(file, totals, now)
    assert read_usage(path).days == {"2026-11-28": totals}
    file.close()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "\xff",
        '{"version": 1}',
        '{"version": 1, "days": {"today": {}}, "months": {}, "hour": {}}',
        '{"version": 1, "days": {"2026-11-28": {"alice": {"sessions": -1, "audio_s": 0, "refusals": 0}}}, '
        '"months": {}, "hour": {}}',
        '{"version": 1, "days": {"2026-11-28": {"alice": {"sessions": 1, "audio_s": NaN, "refusals": 0}}}, '
        '"months": {}, "hour": {}}',
        '{"version": 1, "days": {}, "months": {}, "hour": {"alice": [[1]]}}',
    ],
)
def test_a_damaged_file(content: str, tmp_path: Path) -> None:
    """It is refused with a sentence, and left as it is."""
    path = tmp_path / "usage.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError, match=r"usage\.json is damaged: put a backup in its place, or move it away, and"):
        UsageFile(path)
    assert path.read_bytes() == content.encode("latin-1")


def test_a_later_version(tmp_path: Path) -> None:
    """A file whose form this version does not know is not touched."""
    (tmp_path / "usage.json").write_text('{"version": 2, "years": {}}')
    with pytest.raises(UsageError, match="was written by a later version of Streamer"):
        UsageFile(tmp_path / "usage.json")


def test_two_services(tmp_path: Path) -> None:
    """Another process is refused, also under another name of the file, until this one lets go."""
    path, link = tmp_path / "usage.json", tmp_path / "link.json"
    file = UsageFile(path)
    written(file, {}, at("2026-11-28T12:00"))
    link.symlink_to(path)
    program = f"from streamer.bridge.telemetry.usage import *\nfrom pathlib import Path\nUsageFile(Path({str(link)!r}))"
    command = [sys.executable, "-c", program]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "link.json belongs to another service that runs now: give each service a file of its own" in refused.stderr
    file.close()
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    """The sentence has the reason."""
    with pytest.raises(UsageError, match=r"none/usage\.json cannot be written: No such file or directory"):
        UsageFile(tmp_path / "none" / "usage.json")
