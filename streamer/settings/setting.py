"""A setting: all that its flag, its variable, its key in a file and its documentation are made from."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

from streamer.settings.kinds import Kind

# Not STREAMER_ alone: Kubernetes itself sets STREAMER_PORT where a service is called streamer.
PREFIX: Final = "STREAMER_SERVE_"


@dataclass(frozen=True)
class Setting:
    """One setting. Without a default it need not have a value; `unset` says what that means."""

    name: str  # of the attribute
    kind: Kind
    group: str
    help: str
    default: Any = None
    unset: str = ""
    example: str = ""  # as TOML
    bare: str | None = None  # what the flag without a value means

    @property
    def key(self) -> str:
        """In a file."""
        return self.name.replace("_", "-")

    @property
    def flag(self) -> str:
        """On the command line."""
        return f"--{self.key}"

    @property
    def variable(self) -> str:
        """In the environment."""
        return PREFIX + self.name.upper()

    @property
    def usual(self) -> str:
        """The default as one reads it."""
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
    """A field of a class of settings. The names are those of Setting."""
    about = {"kind": kind, "group": group, "help": help, "unset": unset, "example": example, "bare": bare}
    return field(default=default, metadata=about)


def settings_of(kind: type[Any]) -> dict[str, Setting]:
    """The settings of such a class by name, in order."""
    return {each.name: Setting(each.name, default=each.default, **each.metadata) for each in fields(kind)}


class SettingsError(Exception):
    """Settings that cannot be: the message is a sentence for the user, or several, a line each."""
