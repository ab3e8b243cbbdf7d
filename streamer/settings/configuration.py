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
_OF_KUBERNETES: Final = (
    "; Kubernetes sets it if a service is called streamer-serve: "
    "rename that service, or set enableServiceLinks to false."
)


@dataclass(frozen=True)
class Given:
    """A value that one source gives for a setting, unread, and the names of the source for use in sentences."""

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
    """The values of all settings, and the source of each value that was given."""

    settings: ServeSettings
    given: Mapping[str, Given]

    def named(self, name: str) -> str:
        """Return a setting's name for the start of a sentence: as its source names it, or the flag if none gave it."""
        return self.given[name].name if name in self.given else SETTINGS[name].flag


def configure(flags: Mapping[str, Any], environment: Mapping[str, str], config: Path | None = None) -> Configuration:
    """Combine these flags (by setting name; None means not given), the environment, and the file that one of them
    names. SettingsError lists everything that is wrong.
    """
    if config is None and environment.get(CONFIG_VARIABLE):
        config = Path(environment[CONFIG_VARIABLE])
    file = read_config_file(config) if config else None
    wrong = [*_unknown_keys(file), *_unknown_variables(environment)]
    values: dict[str, Any] = {}
    given: dict[str, Given] = {}
    for name, setting in SETTINGS.items():
        # Every source is checked, even if another takes precedence, so that a mistake shows at once.
        for found in _sources(setting, flags, environment, file):
            try:
                value = found.read(setting)
            except WrongValueError as error:
                linked = found.source == setting.variable and str(found.value).startswith("tcp://")
                wrong.append(f"{found.name} {error}{_OF_KUBERNETES if linked else '.'}")
            else:
                if name not in given:
                    values[name], given[name] = value, found
    if wrong:
        raise SettingsError("\n".join(wrong))
    return Configuration(ServeSettings(**values), given)


def _sources(
    setting: Setting, flags: Mapping[str, Any], environment: Mapping[str, str], file: ConfigFile | None
) -> Iterator[Given]:
    """Yield the values given for a setting, in order of precedence."""
    if (value := flags.get(setting.name)) is not None:
        yield Given(value, setting.flag, setting.flag)
    # An empty variable counts as not set: container templates often leave empty ones.
    if value := environment.get(setting.variable):
        yield Given(value, setting.variable, setting.variable)
    if file is not None and setting.key in file.values:
        location = file.location(setting.key)
        comma = "," if ", line" in location else ""
        yield Given(file.values[setting.key], f"{setting.key} in {location}{comma}", location, file.path.parent)


def _unknown_keys(file: ConfigFile | None) -> Iterator[str]:
    known = [setting.key for setting in SETTINGS.values()]
    for key in file.values if file else ():
        if file and key not in known:
            yield f"unknown setting '{key}' in {file.location(key)}{did_you_mean(key, known, QUOTED) or '.'}"


def _unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    known = [CONFIG_VARIABLE, *(setting.variable for setting in SETTINGS.values())]
    names = [each.removeprefix(PREFIX) for each in known]
    for variable in sorted(environment):
        if variable.startswith(PREFIX) and variable not in known:
            likely = did_you_mean(variable.removeprefix(PREFIX), names, PREFIX + "{}")
            hint = _OF_KUBERNETES if _KUBERNETES.fullmatch(variable) else likely
            yield f"unknown variable {variable}{hint or '.'}"
