"""Writes the figures about speed and capacity of docs/figures.json into the pages.

With --check, it only checks whether the pages have them. `scripts/measure/figures.py` measures them.
"""

from __future__ import annotations

import argparse

from workshop.figures.measured import read
from workshop.figures.pages import NotThere, pages


def main() -> int:
    """Write or check the pages. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; the exit status is 1 if a page differs")
    options = parser.parse_args()
    try:
        found = list(pages(read()))
    except NotThere as error:
        print(error)
        return 1
    for path, text, right in found:
        if text != right and options.check:
            print(f"{path.name} has other figures: run python scripts/docs/figure_pages.py to write it again.")
            return 1
        if text != right:
            path.write_text(right, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
