"""The settings as tables."""

from __future__ import annotations

from streamer.commands.settings.serve import SETTINGS
from workshop.settings_table import tables


def test_every_setting_has_a_row() -> None:
    """Every setting has a row, with its key."""
    shown = tables()
    assert all(f"\n| `{setting.key}` | " in shown for setting in SETTINGS.values())
