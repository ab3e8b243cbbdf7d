"""All attacks: a family is a module, and what it does is in its list. A new way in gets a family of its own here."""

from __future__ import annotations

from typing import Final

from streamer.testing.attack.attack import Attack
from streamer.testing.attack.families import (
    connections,
    faults,
    http_requests,
    messages,
    sessions,
    websocket_frames,
)

ATTACKS: Final[tuple[Attack, ...]] = (
    *connections.ATTACKS,
    *http_requests.ATTACKS,
    *websocket_frames.ATTACKS,
    *messages.ATTACKS,
    *sessions.ATTACKS,
    *faults.ATTACKS,
)
FAMILIES: Final = tuple(dict.fromkeys(attack.family for attack in ATTACKS))


def chosen(names: list[str]) -> tuple[Attack, ...]:
    """Those of these names or families, all of them if there are none; ValueError names what is unknown."""
    unknown = set(names) - set(FAMILIES) - {attack.name for attack in ATTACKS}
    if unknown:
        known = ", ".join(FAMILIES)
        raise ValueError(f"there is no attack {sorted(unknown)[0]!r}; families are {known}, and --list has all attacks")
    return tuple(attack for attack in ATTACKS if not names or {attack.name, attack.family} & set(names))
