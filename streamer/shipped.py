"""Files that belong to this version of Streamer: inside the installed package, or beside it in a clone."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent


def shipped(name: str) -> Path:
    """Return the path of the file or folder of this name. FileNotFoundError if it does not exist."""
    for folder in (PACKAGE, PACKAGE.parent):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{name} is neither in {PACKAGE} nor beside it: install Streamer again")
