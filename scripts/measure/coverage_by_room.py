"""Prints how many statements and branches of each room of streamer/ the tests run, from a file of `coverage json`."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any, Final

COUNTED: Final = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def main() -> int:
    """Print the table. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "report", type=Path, nargs="?", default=Path("coverage.json"), help="the file (default: coverage.json)"
    )
    report = json.loads(parser.parse_args().report.read_text(encoding="utf-8"))
    print("| room | statements | run | branches | taken |\n|---|---:|---:|---:|---:|")
    for room, counts in [*sorted(rooms(report).items()), ("all", sum(rooms(report).values(), Counter()))]:
        statements, run, branches, covered = (counts[name] for name in COUNTED)
        print(f"| `{room}` | {statements} | {share(run, statements)} | {branches} | {share(covered, branches)} |")
    return 0


def rooms(report: dict[str, Any]) -> dict[str, Counter[str]]:
    """Return the counts of each package below streamer/, and of the modules beside the packages."""
    by_room: dict[str, Counter[str]] = {}
    for path, file in report["files"].items():
        parts = PurePosixPath(path).parts
        room = parts[1] if len(parts) > 2 else "modules beside"
        by_room.setdefault(room, Counter()).update({name: file["summary"][name] for name in COUNTED})
    return by_room


def share(part: int, whole: int) -> str:
    """Return the covered share in percent."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


if __name__ == "__main__":
    raise SystemExit(main())
