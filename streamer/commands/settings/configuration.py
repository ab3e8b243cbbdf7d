"""The configuration of a service: each setting's value and source, the file that it is read from, and how to print it.

A flag takes precedence over a variable, a variable over the file, and the file over the default.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streamer.base.text import QUOTED, did_you_mean
from streamer.commands.settings.kinds import PREFIX, ListOf, Setting, SettingsError, WrongValueError, conceal_secrets
from streamer.commands.settings.serve import SETTINGS, ServeSettings

CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"  # names the settings file, unless the flag does
# Variables that Kubernetes sets in every container if a service is called streamer-serve.
_KUBERNETES: Final = re.compile(rf"{PREFIX}(SERVICE_HOST|(SERVICE_)?PORT(_.+)?)")
_KUBERNETES_HINT: Final = (
    "; Kubernetes sets it if a service is called streamer-serve: "
    "rename that service, or set enableServiceLinks to false."
)


@dataclass(frozen=True)
class Entry:
    """The unread value of a setting in one source, and the names of that source for use in sentences."""

    value: Any
    name: str  # the setting as this source names it: "--port", or "port in streamer.toml, line 3,"
    source: str  # "--port", or "streamer.toml, line 3"
    folder: Path | None = None  # the folder of the settings file, if the value is from one

    def read(self, setting: Setting) -> Any:
        """Return the value as the setting's kind. WrongValueError if it is not valid."""
        if self.folder is not None:
            return setting.kind.of_toml(self.value, self.folder)
        if isinstance(self.value, bool):
            return self.value
        text = ",".join(self.value) if isinstance(setting.kind, ListOf) and isinstance(self.value, list) else self.value
        return setting.kind.of_text(text)


@dataclass(frozen=True)
class Configuration:
    """The values of all settings, and the entry of each setting that has one."""

    settings: ServeSettings
    entries: Mapping[str, Entry]

    def label(self, name: str) -> str:
        """Return a setting's name for the start of a sentence: as its source names it, or its flag without an entry."""
        return self.entries[name].name if name in self.entries else SETTINGS[name].flag


def configure(flags: Mapping[str, object], environment: Mapping[str, str], config: Path | None = None) -> Configuration:
    """Combine these flags (by setting name; None means not given), the environment, and the file that one of them
    names. SettingsError lists everything that is wrong.
    """
    if config is None and environment.get(CONFIG_VARIABLE):
        config = Path(environment[CONFIG_VARIABLE])
    file = read_config_file(config) if config else None
    errors = [*_unknown_keys(file), *_unknown_variables(environment)]
    values: dict[str, Any] = {}
    entries: dict[str, Entry] = {}
    for name, setting in SETTINGS.items():
        # Every source is checked, even if another takes precedence, so that a mistake shows at once.
        for entry in _sources(setting, flags, environment, file):
            try:
                value = entry.read(setting)
            except WrongValueError as error:
                linked = entry.source == setting.variable and str(entry.value).startswith("tcp://")
                errors.append(f"{entry.name} {error}{_KUBERNETES_HINT if linked else '.'}")
            else:
                if name not in entries:
                    values[name], entries[name] = value, entry
    if errors:
        raise SettingsError("\n".join(errors))
    return Configuration(ServeSettings(**values), entries)


def _sources(
    setting: Setting, flags: Mapping[str, object], environment: Mapping[str, str], file: ConfigFile | None
) -> Iterator[Entry]:
    """Yield the entries for a setting in all sources, in order of precedence."""
    if (value := flags.get(setting.name)) is not None:
        yield Entry(value, setting.flag, setting.flag)
    # An empty variable counts as not set: container templates often leave empty ones.
    if value := environment.get(setting.variable):
        yield Entry(value, setting.variable, setting.variable)
    if file is not None and setting.key in file.values:
        location = file.location(setting.key)
        comma = "," if ", line" in location else ""
        yield Entry(file.values[setting.key], f"{setting.key} in {location}{comma}", location, file.path.parent)


def _unknown_keys(file: ConfigFile | None) -> Iterator[str]:
    keys = [setting.key for setting in SETTINGS.values()]
    for key in file.values if file else ():
        if file and key not in keys:
            yield f"unknown setting '{key}' in {file.location(key)}{did_you_mean(key, keys, QUOTED) or '.'}"


def _unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    variables = [CONFIG_VARIABLE, *(setting.variable for setting in SETTINGS.values())]
    names = [each.removeprefix(PREFIX) for each in variables]
    for variable in sorted(environment):
        if variable.startswith(PREFIX) and variable not in variables:
            suggestion = did_you_mean(variable.removeprefix(PREFIX), names, PREFIX + "{}")
            hint = _KUBERNETES_HINT if _KUBERNETES.fullmatch(variable) else suggestion
            yield f"unknown variable {variable}{hint or '.'}"


@dataclass(frozen=True)
class ConfigFile:
    """The content of a settings file: TOML, with all keys at the top level. It knows the line of each key."""

    path: Path
    values: Mapping[str, object]
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


# Prints a configuration as a settings file: the values in effect, their sources, and what else can be set.

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
