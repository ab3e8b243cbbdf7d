"""Tables in plain text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LINE: Final = 100


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with columns as wide as needed. The first is aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
