"""The flags of `serve`, made from its settings. Their values are checked later, with those of all other sources."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamer.settings.configuration import CONFIG_VARIABLE
from streamer.settings.kinds import ListOf, Switch
from streamer.settings.serve import SETTINGS
from streamer.settings.setting import Setting


def add_setting_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting, in its group."""
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help=f"read settings from this file too ({CONFIG_VARIABLE})")
    add("--print-config", action="store_true", help="print the settings in effect as such a file, and exit")
    groups: dict[str, argparse._ArgumentGroup] = {}
    for setting in SETTINGS.values():
        if setting.group not in groups:
            groups[setting.group] = parser.add_argument_group(setting.group)
        _add(groups[setting.group].add_argument, setting)


def flag_values(options: argparse.Namespace) -> dict[str, Any]:
    """Return the flags that were given, by the names of their settings."""
    return {name: value for name in SETTINGS if (value := getattr(options, name)) is not None}


def _add(add: Callable[..., argparse.Action], setting: Setting) -> None:
    about = f"{setting.help.rstrip('.')} ({setting.usual})".replace("%", "%%")
    kind = setting.kind
    if isinstance(kind, Switch):
        add(setting.flag, dest=setting.name, action=argparse.BooleanOptionalAction, default=None, help=about)
    elif isinstance(kind, ListOf):
        about = f"{about}; may be given several times"
        add(setting.flag, dest=setting.name, action="append", metavar=kind.metavar, help=about)
    elif setting.bare is not None:
        about = f"{about}; {setting.bare} without {kind.metavar}"
        add(setting.flag, dest=setting.name, nargs="?", const=setting.bare, metavar=kind.metavar, help=about)
    else:
        action = add(setting.flag, dest=setting.name, metavar=kind.metavar or None, help=about)
        if kind.words:
            # For argcomplete only. argparse would report a wrong value in other words than the settings do.
            action.completer = lambda **_: kind.words  # type: ignore[attr-defined]
