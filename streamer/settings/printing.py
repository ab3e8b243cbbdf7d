"""Prints a configuration as a settings file: the values in effect, their sources, and what else can be set."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from streamer.settings.configuration import Configuration
from streamer.settings.kinds import conceal_secrets
from streamer.settings.serve import SETTINGS
from streamer.settings.setting import Setting

_WIDTH: Final = 100
_HEAD: Final = (
    "The settings of `streamer serve` that are in effect here, and the source of each. Save them as a file to use "
    "them again with `streamer serve --config FILE`. A setting without a value is shown with an example."
)


def as_toml(configuration: Configuration) -> str:
    """Write the settings file."""
    lines = [*_comment(_HEAD)]
    group = ""
    for name, setting in SETTINGS.items():
        if setting.group != group:
            group = setting.group
            lines += ["", "", f"# --- {group} ---"]
        lines += ["", *_entry(setting, getattr(configuration.settings, name), _source(configuration, name))]
    return "\n".join([*lines, ""])


def _source(configuration: Configuration, name: str) -> str:
    return configuration.entries[name].source if name in configuration.entries else "the default"


def _entry(setting: Setting, value: Any, source: str) -> Iterator[str]:
    yield from _comment(setting.help)
    if value in (None, ()):
        yield from _comment(f"Not set: {setting.unset}.")
        yield f"# {setting.key} = {setting.example}"
        return
    yield from _comment(f"From: {source}.")
    text = setting.kind.to_toml(value)
    safe = conceal_secrets(text).encode(errors="backslashreplace").decode()
    if safe == text:
        yield f"{setting.key} = {text}"
    else:
        yield "# This value contains a secret, or characters that cannot be written here: fill it in."
        yield f"# {setting.key} = {safe}"


def _comment(text: str) -> list[str]:
    # A path may contain any character. A line break in it must not end the comment.
    plain = "".join(character if character.isprintable() else "?" for character in text)
    return textwrap.wrap(plain, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
