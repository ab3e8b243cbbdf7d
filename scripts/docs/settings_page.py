"""Writes the tables of docs/reference/settings.md from the list of settings.

With --check, it only checks whether they are up to date.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from streamer.commands.settings.kinds import Setting
from streamer.commands.settings.serve import SETTINGS

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference/settings.md"
BEGIN: Final = "<!-- The tables are made by `python scripts/docs/settings_page.py`. -->\n"
END: Final = "<!-- The end of the tables. -->\n"


def main() -> int:
    """Write or check the tables. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; the exit status is 1 if a table is out of date"
    )
    options = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    right = with_tables(text)
    if not options.check:
        PAGE.write_text(right, encoding="utf-8")
    elif text != right:
        print(f"{PAGE.name} is out of date: run python scripts/docs/settings_page.py to write it again.")
        return 1
    return 0


def with_tables(page: str) -> str:
    """Return the page with the tables of the present settings."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{tables()}\n{END}{after}"


def tables() -> str:
    """Write one table for each group of settings."""
    lines: list[str] = []
    group = ""
    for setting in SETTINGS.values():
        if setting.group != group:
            group = setting.group
            lines += ["", f"### {group.partition(' (')[0]}", "", "| setting | value | without it | meaning |"]
            lines += ["|---|---|---|---|"]
        lines.append(f"| {' | '.join(_cells(setting))} |")
    return "\n".join([*lines, ""])


def _cells(setting: Setting) -> Iterator[str]:
    yield f"`{setting.key}`"
    yield setting.kind.description
    yield setting.unset if setting.default in (None, ()) else f"`{setting.usual}`"
    bare = f" The flag `{setting.flag}` without a value means {setting.bare}." if setting.bare else ""
    example = f" Example: `{setting.example}`." if setting.example else ""
    yield f"{setting.help}{bare}{example}"


if __name__ == "__main__":
    raise SystemExit(main())
