"""Lists all attacks. Each family is a module with a list of its attacks. A new way in gets a family of its own."""

from __future__ import annotations

from typing import Final

from streamer.testing.attack.attack import Attack
from streamer.testing.attack.families import (
    connections,
    deepgram_live,
    deepgram_recorded,
    faults,
    http_requests,
    messages,
    openai_files,
    openai_realtime,
    sessions,
    uploads,
    websocket_frames,
)

ATTACKS: Final[tuple[Attack, ...]] = (
    *connections.ATTACKS,
    *http_requests.ATTACKS,
    *websocket_frames.ATTACKS,
    *messages.ATTACKS,
    *sessions.ATTACKS,
    *uploads.ATTACKS,
    *deepgram_live.ATTACKS,
    *deepgram_recorded.ATTACKS,
    *openai_realtime.ATTACKS,
    *openai_files.ATTACKS,
    *faults.ATTACKS,
)
FAMILIES: Final = tuple(dict.fromkeys(attack.family for attack in ATTACKS))


def chosen(names: list[str]) -> tuple[Attack, ...]:
    """Return the attacks with these names or of these families (default: all). ValueError names an unknown one."""
    unknown = set(names) - set(FAMILIES) - {attack.name for attack in ATTACKS}
    if unknown:
        families = ", ".join(FAMILIES)
        raise ValueError(
            f"there is no attack {sorted(unknown)[0]!r}; the families are {families}, and --list shows all attacks"
        )
    return tuple(attack for attack in ATTACKS if not names or {attack.name, attack.family} & set(names))
