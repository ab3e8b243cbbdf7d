"""The result of one check, as a line for people and as an object for programs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from streamer.base.machine import home_folder
from streamer.base.text import printable

FINE: Final = "fine"
WARNING: Final = "warning"  # something does not work, or will be slow; recordings can be transcribed
WRONG: Final = "wrong"  # recordings cannot be transcribed, or the service cannot run

SUBJECT_COLUMNS: Final = 15
SECRETS: Final = ("STREAMER_KEY",)  # variables whose values are never shown

_SIGNS: Final = {FINE: ("✓", "+"), WARNING: ("!", "!"), WRONG: ("✗", "x")}
_COLOURS: Final = {FINE: "\x1b[32m", WARNING: "\x1b[33m", WRONG: "\x1b[31m"}
_NORMAL: Final = "\x1b[0m"


@dataclass(frozen=True)
class Finding:
    """The state of one thing, and how to repair it."""

    subject: str
    state: str
    said: str
    remedy: str = ""

    def line(self, *, colour: bool = False, plain: bool = False) -> str:
        """The line for people. `plain`: without special characters."""
        sign = _SIGNS[self.state][plain]
        if colour:
            sign = f"{_COLOURS[self.state]}{sign}{_NORMAL}"
        arrow = "->" if plain else "→"
        remedy = f" {arrow} {self.remedy}" if self.remedy else ""
        return f"{sign} {printable(self.subject):{SUBJECT_COLUMNS}} {without_secrets(self.said + remedy)}"

    def content(self) -> dict[str, object]:
        """The object for programs."""
        return {
            "subject": self.subject,
            "state": self.state,
            "said": without_secrets(self.said),
            "remedy": without_secrets(self.remedy),
        }


def without_secrets(text: str) -> str:
    """The text in one printable line, without secrets and without the path of the home folder."""
    for name in SECRETS:
        if secret := os.environ.get(name):
            text = text.replace(secret, "…")
    home = str(home_folder())
    if len(home) > 1:
        text = text.replace(f"{home}/", "~/")
    return printable(" ".join(text.split()))
