"""The folder for temporary files, and what to do when it is full; the home folder. Standard library only."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

LEAST: Final = 1 << 20  # bytes; the folder of a Triton takes less
REMEDY: Final = "free some space there, or name another folder with TMPDIR"
# The home folder of users without one: those of a container, whose number has no name and for whom HOME is not set.
NO_HOME: Final = Path("/nonexistent")


def temporary_folder() -> Path:
    """Return the folder for temporary files. OSError with the remedy in its message if there is no space.

    If no folder can be used, Python falls back to the current folder, which is the wrong place for temporary files.
    """
    preferred = preferred_folder()
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError:
        raise no_space_error(preferred) from None
    if (folder == Path.cwd() and folder != preferred) or free_bytes(folder) < LEAST:
        raise no_space_error(preferred)
    return folder


def preferred_folder() -> Path:
    """Return the folder that TMPDIR names, or that of the system."""
    variable_value = next(filter(None, (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))), None)
    return Path(variable_value or ("/tmp" if os.name == "posix" else home_folder() / "AppData" / "Local" / "Temp"))


def home_folder() -> Path:
    """Return the home folder of this user, or NO_HOME, where nothing exists and nothing can be written."""
    try:
        return Path.home()
    except RuntimeError:
        return NO_HOME


def user_folder(variable: str, usual: str) -> Path:
    """Return the folder of this user that a variable of XDG names, or the usual one in the home folder."""
    folder = Path(os.environ.get(variable) or "")
    # The specification of XDG says that a relative path must be ignored.
    return folder if folder.is_absolute() else home_folder() / usual


def free_bytes(folder: Path) -> int:
    """Return how many bytes can be written there; 0 if nothing can."""
    try:
        return shutil.disk_usage(folder).free if os.access(folder, os.W_OK) else 0
    except OSError:
        return 0


def no_space_error(folder: Path) -> OSError:
    """Return the error for a folder in which there is no space."""
    reason = "is full" if folder.is_dir() and os.access(folder, os.W_OK) else "cannot be written"
    return OSError(errno.ENOSPC, f"the temporary folder {folder} {reason}: {REMEDY}")
