"""A settings file: TOML, all keys at the top level. Knows in which line each of them is."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.settings.setting import SettingsError


@dataclass(frozen=True)
class ConfigFile:
    """What a file says."""

    path: Path
    values: dict[str, Any]
    lines: dict[str, int]  # of the keys whose line is known

    def location(self, key: str) -> str:
        """Where a key is, as it stands in a sentence."""
        line = self.lines.get(key)
        return f"{self.path}, line {line}" if line else str(self.path)


def read_config_file(path: Path) -> ConfigFile:
    """Reads it; SettingsError if that is not possible."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} cannot be read: it is not UTF-8 text.") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}.") from None
    found = {key: _lines_of(key, text) for key in values}
    return ConfigFile(path, values, {key: lines[0] for key, lines in found.items() if len(lines) == 1})


def _lines_of(key: str, text: str) -> list[int]:
    """The lines in which the key seems to be set: several if the key also stands in a text of several lines."""
    begins = re.compile(rf"\s*(\[\s*)?([\"']?){re.escape(key)}\2\s*[=.\]]")
    return [number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)]
