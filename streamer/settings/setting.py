"""A setting: the one description from which its flag, variable, key in a file and documentation are made."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from streamer.settings.kinds import Kind

# STREAMER_ alone would not do: Kubernetes sets STREAMER_PORT if a service is called streamer.
PREFIX: Final = "STREAMER_SERVE_"


@dataclass(frozen=True)
class Setting:
    """One setting. Without a default it may have no value; `unset` says what that means."""

    name: str  # the name of the attribute
    kind: Kind
    group: str
    help: str
    default: Any = None
    unset: str = ""
    example: str = ""  # as TOML
    bare: str | None = None  # the value if the flag is given without one

    @property
    def key(self) -> str:
        """The name in a settings file."""
        return self.name.replace("_", "-")

    @property
    def flag(self) -> str:
        """The name on the command line."""
        return f"--{self.key}"

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return PREFIX + self.name.upper()

    @property
    def usual(self) -> str:
        """The default, or what happens without a value, in words."""
        return self.unset if self.default in (None, ()) else self.kind.to_text(self.default)


def setting(
    kind: Kind,
    group: str,
    help: str,
    default: Any = None,
    *,
    unset: str = "",
    example: str = "",
    bare: str | None = None,
) -> Any:
    """Make a field of a class of settings. The arguments are those of Setting."""
    about = {"kind": kind, "group": group, "help": help, "unset": unset, "example": example, "bare": bare}
    return field(default=default, metadata=about)


def settings_of(kind: type[Any]) -> dict[str, Setting]:
    """Return the settings of a class whose fields `setting` has made, by name and in order."""
    return {each.name: Setting(each.name, default=each.default, **each.metadata) for each in fields(kind)}


class SettingsError(Exception):
    """Settings that are not valid. The message has one sentence for the user on each line."""
