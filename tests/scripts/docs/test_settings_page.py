"""The page about the settings is up to date."""

from __future__ import annotations

import re
from pathlib import Path

from streamer.commands.settings.configuration import configure
from streamer.commands.settings.serve import SETTINGS
from tests.project import DOCS
from tests.scripts.program import run


def test_the_page_is_that_of_the_settings() -> None:
    """The page of settings is what the script would write."""
    done = run("docs/settings_page.py", "--check")
    assert (done.returncode, done.stdout) == (0, "")


def test_every_setting_has_a_row() -> None:
    """Every setting has a row, with its key."""
    page = (DOCS / "reference/settings.md").read_text(encoding="utf-8")
    assert all(f"\n| `{setting.key}` | " in page for setting in SETTINGS.values())


def test_its_file_is_accepted(tmp_path: Path) -> None:
    """The example file of the page is valid."""
    page = (DOCS / "reference/settings.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    file = tmp_path / "streamer.toml"
    file.write_text(shown, encoding="utf-8")
    assert len(configure({}, {}, file).entries) == len(shown.splitlines())
