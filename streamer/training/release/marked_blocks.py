"""Writes tables into documents, between two comments that name the table.

<!-- measured: NAME -->
| a table | ...
<!-- end -->
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from streamer.training.data.replaced_file import replacing

# There are empty lines around the table. Directly beside a comment it would not be shown as a table.
_BLOCK = re.compile(r"(<!-- measured: (?P<name>[\w-]+) -->\n\n)(?P<text>.*?)(\n\n<!-- end -->)", re.DOTALL)
_FIGURE = re.compile(r"\d+\.\d+")

Write = Callable[[str], str]
"""Makes the text of a block from the one that stands there."""


def rewrite(documents: list[Path], blocks: Mapping[str, Write], tell: Callable[[str], None]) -> None:
    """Write all blocks with these names. Reports the changed ones, and lines outside that contain their old figures."""
    old: set[str] = set()

    def written(match: re.Match[str]) -> str:
        text = blocks[match["name"]](match["text"]) if match["name"] in blocks else match["text"]
        old.update(set(_FIGURE.findall(match["text"])) - set(_FIGURE.findall(text)))
        return match[1] + text + match[4]

    for path in documents:
        before = path.read_text(encoding="utf-8")
        after = _BLOCK.sub(written, before)
        if after != before:
            with replacing(path, "w") as file:
                file.write(after)
            tell(f"{path}: new tables")
    for path, number, line in _outside(documents, old):
        tell(f"{path}:{number}: an old figure outside the tables: {line.strip()}")


def cells(text: str) -> list[list[str]]:
    """Return the cells of all rows of a table, with its head."""
    rows = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if not set("".join(row)) <= set("-: ")]


def table(rows: list[list[str]]) -> str:
    """Return a table of these rows. The first row is the head."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def _outside(documents: list[Path], figures: set[str]) -> Iterator[tuple[Path, int, str]]:
    for path in documents:
        inside = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            inside = (inside or "<!-- measured:" in line) and "<!-- end -->" not in line
            if not inside and figures & set(_FIGURE.findall(line)):
                yield path, number, line
