"""A level meter: shows how loud the audio is, as a bar of a few characters."""

from __future__ import annotations

import math
from typing import Final

CELLS: Final = 8
QUIETEST_DB: Final = -54.0  # an empty bar; speech into a good microphone is at -30 to -10
CLIPPED: Final = 0.99  # from here on the audio is clipped, and recognition suffers

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"


def level_bar(peak: float, *, plain: bool = False) -> str:
    """Return a bar for the loudest sample (1 is full scale) in decibels, with `!` at the end if it was too loud."""
    decibels = 20 * math.log10(peak) if peak > 0 else QUIETEST_DB
    share = min(1.0, max(0.0, 1 - decibels / QUIETEST_DB))
    eighths = round(share * CELLS * 8)
    if plain:
        drawn = "#" * round(eighths / 8)
    else:
        drawn = _EIGHTHS[8] * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return f"{drawn:{CELLS}}{'!' if peak >= CLIPPED else ' '}"
