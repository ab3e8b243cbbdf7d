"""The folder for temporary files, and what to do where it is full. Standard library only."""

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
    """Where temporary files go; OSError with the remedy in its words if there is no room for them.

    Python falls back to the folder that one is in, which is no place for them.
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
    """So much can be written there; 0 where nothing can."""
    try:
        return shutil.disk_usage(folder).free if os.access(folder, os.W_OK) else 0
    except OSError:
        return 0


def full(folder: Path) -> OSError:
    """What is raised where nothing fits into this folder."""
    said = "is full" if folder.is_dir() and os.access(folder, os.W_OK) else "cannot be written"
    return OSError(errno.ENOSPC, f"the temporary folder {folder} {said}: {REMEDY}")
