"""The configuration of a service: the value of each setting, and which source it came from.

A flag takes precedence over a variable, a variable over the file, and the file over the default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streamer.settings.config_file import ConfigFile, read_config_file
from streamer.settings.kinds import ListOf, WrongValueError
from streamer.settings.nearest import QUOTED, did_you_mean
from streamer.settings.serve import SETTINGS, ServeSettings
from streamer.settings.setting import PREFIX, Setting, SettingsError

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


def configure(flags: Mapping[str, Any], environment: Mapping[str, str], config: Path | None = None) -> Configuration:
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
    setting: Setting, flags: Mapping[str, Any], environment: Mapping[str, str], file: ConfigFile | None
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
