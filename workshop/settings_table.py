"""Tables of the settings for a page in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from streamer.commands.settings.kinds import Setting
from streamer.commands.settings.serve import SETTINGS


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
