"""The folder for temporary files, and what to do when it is full. Standard library only."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

LEAST: Final = 1 << 20  # bytes; the folder of a Triton takes less
REMEDY: Final = "free some space there, or name another folder with TMPDIR"


def temporary_folder() -> Path:
    """Return the folder for temporary files. OSError with the remedy in its message if there is no space.

    If no folder can be used, Python falls back to the current folder, which is the wrong place for temporary files.
    """
    wanted = wanted_folder()
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError:
        raise full(wanted) from None
    if (folder == Path.cwd() and folder != wanted) or free_bytes(folder) < LEAST:
        raise full(wanted)
    return folder


def wanted_folder() -> Path:
    """The folder that TMPDIR names, or that of the system."""
    named = next(filter(None, (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))), None)
    return Path(named or ("/tmp" if os.name == "posix" else Path.home() / "AppData" / "Local" / "Temp"))


def free_bytes(folder: Path) -> int:
    """How many bytes can be written there; 0 if nothing can."""
    try:
        return shutil.disk_usage(folder).free if os.access(folder, os.W_OK) else 0
    except OSError:
        return 0


def full(folder: Path) -> OSError:
    """The error for a folder in which there is no space."""
    said = "is full" if folder.is_dir() and os.access(folder, os.W_OK) else "cannot be written"
    return OSError(errno.ENOSPC, f"the temporary folder {folder} {said}: {REMEDY}")
