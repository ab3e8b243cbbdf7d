"""The settings as tables."""

from __future__ import annotations

from streamer.settings.markdown import tables
from streamer.settings.serve import SETTINGS


def test_every_setting_has_a_row() -> None:
    """Every setting has a row, with its key."""
    shown = tables()
    assert all(f"\n| `{setting.key}` | " in shown for setting in SETTINGS.values())
