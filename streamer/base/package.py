"""The installed package: its name in the public index, and the files that belong to it, in a clone or in the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAME: Final = "streamer-asr"


def install_command(part: str = "") -> str:
    """Return the command that installs Streamer, or adds one of the optional parts of pyproject.toml."""
    return f"pip install '{NAME}[{part}]'" if part else f"pip install {NAME}"


# Files that belong to this version of Streamer: inside the installed package, or beside it in a clone.

PACKAGE: Final = Path(__file__).resolve().parents[1]


def shipped(name: str) -> Path:
    """Return the path of the file or folder of this name. FileNotFoundError if it does not exist."""
    for folder in (PACKAGE, PACKAGE.parent):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{name} is neither in {PACKAGE} nor beside it: install Streamer again")
