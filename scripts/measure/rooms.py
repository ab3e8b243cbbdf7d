"""Counts the modules of both houses, and the arrows between the rooms of streamer/.

    python scripts/measure/rooms.py [FOLDER]

FOLDER is a checkout, also one of another commit (`git worktree add FOLDER COMMIT`); it is this one if none is given.
A room is what stands directly in streamer/: a folder, or a module. An arrow is a room that imports another one.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = "streamer"
HOUSES: Final = (PRODUCT, "workshop", "asr_repo", "scripts", "tests")


class Size(NamedTuple):
    """How large a house is. A package is a folder with `__init__.py`, which does not count as a module."""

    modules: int
    packages: int
    lines: int

    @property
    def mean(self) -> int:
        """The lines of a module on average."""
        return round(self.lines / self.modules) if self.modules else 0


def main() -> int:
    """Print the figures. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT, help="a checkout (default: this one)")
    folder = parser.parse_args().folder
    print("| folder | modules | packages | lines | lines of a module |\n|---|---:|---:|---:|---:|")
    for house in HOUSES:
        size = size_of(folder / house)
        print(f"| `{house}/` | {size.modules} | {size.packages} | {size.lines} | {size.mean} |")
    found = arrows(folder)
    print(f"\n{len({room for arrow in found for room in arrow})} rooms, {len(found)} arrows")
    return 0


def size_of(house: Path) -> Size:
    """Return the size of a house, which may be missing in an older checkout."""
    paths = list(house.rglob("*.py"))
    modules = [path for path in paths if path.name != "__init__.py"]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in modules)
    return Size(len(modules), len(paths) - len(modules), lines)


def arrows(folder: Path) -> set[tuple[str, str]]:
    """Return each pair of rooms of which the first imports the second."""
    home = folder / PRODUCT
    rooms = {path.stem for path in home.iterdir() if path.is_dir() or path.suffix == ".py"} - {"__init__"}
    found = set()
    for path in home.rglob("*.py"):
        room = Path(path.relative_to(home).parts[0]).stem
        found |= {(room, other) for other in _imported_rooms(path, rooms) if room in rooms and other != room}
    return found


def _imported_rooms(path: Path, rooms: set[str]) -> Iterator[str]:
    for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            names = [f"{statement.module}.{alias.name}" for alias in statement.names]
        else:
            continue
        for name in names:
            house, _, inner = name.partition(".")
            if house == PRODUCT and inner.partition(".")[0] in rooms:
                yield inner.partition(".")[0]


if __name__ == "__main__":
    raise SystemExit(main())
