"""The folder of one server for temporary files, and the shared memory that is named after it.

Both are in places where other users of the machine may create files too, so a name does not prove who owns a file. Only
files of our user are touched, names are never used as patterns, and links are not followed. A lock on the folder marks
it as in use. The server's processes hold the lock too, so a folder with a free lock is not used by any of them.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from streamer.machine.temporary_folder import temporary_folder
from streamer.triton import TritonError

FOLDER_PREFIX = "streamer-triton-"
SHARED_MEMORY = Path("/dev/shm")
SWEEP_SECONDS = 2.0  # other users may fill the folder of temporary files, and must not keep a guard busy with that
_FOLDER = re.compile(re.escape(FOLDER_PREFIX) + r"[a-z0-9_]{8}")  # as mkdtemp makes them


def claim() -> tuple[Path, int]:
    """Make a new folder and lock it. TritonError if other users could replace it."""
    parent = temporary_folder()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
        if not _is_kept_by_owner(folder.parent):
            folder.rmdir()
            raise TritonError(
                f"other users may replace your files in {folder.parent}: set TMPDIR to a folder of your own"
            )
        with suppress(FileNotFoundError):  # swept by another start before we had the lock
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_nlink:
                    return folder, lock
            os.close(lock)


def remove(folder: Path) -> None:
    """Remove the folder and the shared memory that is named after it."""
    for region in regions(folder):
        with suppress(OSError):
            region.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def regions(folder: Path) -> Iterator[Path]:
    """Yield the shared memory of the server with this folder."""
    with suppress(OSError), os.scandir(SHARED_MEMORY) as entries:
        for entry in entries:
            if entry.name.startswith(f"{folder.name}-"):
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
                        yield Path(entry.path)


def close_regions(folder: Path) -> None:
    """Prevent other users from opening this server's shared memory."""
    for region in regions(folder):
        with suppress(OSError):
            if region.stat().st_mode & 0o077:
                region.chmod(0o600)


def sweep(parent: Path) -> None:
    """Remove what our user's servers left here if they ended without a guard to clean up."""
    deadline = time.monotonic() + SWEEP_SECONDS
    with suppress(OSError):
        if not _is_kept_by_owner(parent):
            return
        with os.scandir(parent) as entries:
            for entry in entries:
                if time.monotonic() > deadline:
                    return
                if _FOLDER.fullmatch(entry.name):
                    _remove_unused(Path(entry.path))


def _remove_unused(folder: Path) -> None:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # removed meanwhile, a link, not a folder, or another user's
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            with suppress(BlockingIOError):  # it is in use
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
    finally:
        os.close(lock)


def _is_kept_by_owner(folder: Path) -> bool:
    """Whether other users cannot replace a user's files in this folder."""
    mode = folder.stat().st_mode
    return bool(mode & stat.S_ISVTX) or not mode & stat.S_IWOTH
