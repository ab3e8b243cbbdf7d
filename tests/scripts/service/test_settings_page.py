"""The page about the settings against the list that they come from."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.service.settings_page import PAGE, tables, with_tables
from streamer.settings.configuration import configure
from streamer.settings.serve import SETTINGS


def test_the_page_is_that_of_the_settings() -> None:
    """`python scripts/service/settings_page.py` would change nothing."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page
    assert all(f"\n| `{setting.key}` | " in tables() for setting in SETTINGS.values())


def test_its_file_is_accepted(tmp_path: Path) -> None:
    """The one that it shows."""
    [shown] = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    file = tmp_path / "streamer.toml"
    file.write_text(shown, encoding="utf-8")
    assert len(configure({}, {}, file).given) == len(shown.splitlines())
