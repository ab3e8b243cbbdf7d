"""A settings file: TOML, with all keys at the top level. It knows the line of each key."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.settings.setting import SettingsError


@dataclass(frozen=True)
class ConfigFile:
    """The content of a settings file."""

    path: Path
    values: dict[str, Any]
    lines: dict[str, int]  # the line of each key, where it is known

    def location(self, key: str) -> str:
        """Return where a key is, as words for a sentence."""
        line = self.lines.get(key)
        return f"{self.path}, line {line}" if line else str(self.path)


def read_config_file(path: Path) -> ConfigFile:
    """Read a settings file. SettingsError if that is not possible."""
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
        raise SettingsError(f"{path} is not valid TOML: {error}.") from None
    lines_by_key = {key: _lines_of(key, text) for key in values}
    return ConfigFile(path, values, {key: lines[0] for key, lines in lines_by_key.items() if len(lines) == 1})


def _lines_of(key: str, text: str) -> list[int]:
    """Return the lines that seem to set the key. A multi-line string may contain a line that looks like one."""
    begins = re.compile(rf"\s*(\[\s*)?([\"']?){re.escape(key)}\2\s*[=.\]]")
    return [number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)]
