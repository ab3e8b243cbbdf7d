"""The temporary folder of one server, and the shared memory whose names begin with the folder's name.

Both are in places where other users of the machine may create files too, so a name does not prove who owns a file. This
module touches only files of our user, never uses names as patterns, and does not follow links. A lock on the folder
shows that it is in use. All processes of the server hold the lock, so none of them uses a folder with a free lock.
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

from streamer.base.machine import command, processes, temporary_folder
from streamer.bridge.triton import TritonError

FOLDER_PREFIX = "streamer-triton-"


SHARED_MEMORY = Path("/dev/shm")


SWEEP_SECONDS = 2.0  # a limit, because other users may put any number of files into the temporary folder


_FOLDER = re.compile(re.escape(FOLDER_PREFIX) + r"[a-z0-9_]{8}")  # the names that mkdtemp makes


# Each Triton makes such a folder for packed environments, whatever TMPDIR says, and leaves it behind. Ours have none.
ENVIRONMENTS = Path("/tmp")
_ENVIRONMENT = re.compile(r"python_env_[A-Za-z0-9]{6}")
CLOCK_ERROR_SECONDS = 1.0  # between the times of files and of processes


def claim() -> tuple[Path, int]:
    """Make a new folder and lock it. Raise TritonError if other users could replace it."""
    parent = temporary_folder()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
        if not _is_safe_parent(folder.parent):
            folder.rmdir()
            advice = "set TMPDIR to a folder of your own"
            raise TritonError(f"other users may replace your files in {folder.parent}: {advice}")
        with suppress(FileNotFoundError):  # another start has removed the folder before we had the lock
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_nlink:
                    return folder, lock
            os.close(lock)


def remove(folder: Path) -> None:
    """Remove the folder and the shared memory of its server."""
    for region in regions(folder):
        with suppress(OSError):
            region.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def regions(folder: Path) -> Iterator[Path]:
    """Yield the shared memory of this folder's server."""
    with suppress(OSError), os.scandir(SHARED_MEMORY) as entries:
        for entry in entries:
            if entry.name.startswith(f"{folder.name}-"):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                        yield Path(entry.path)


def close_regions(folder: Path) -> None:
    """Prevent other users from opening this server's shared memory."""
    for region in regions(folder):
        with suppress(OSError):
            if region.stat().st_mode & 0o077:
                region.chmod(0o600)


def sweep(parent: Path) -> None:
    """Remove the folders here that our user's servers have left, because their guard was killed."""
    deadline = time.monotonic() + SWEEP_SECONDS
    with suppress(OSError):
        if not _is_safe_parent(parent):
            return
        with os.scandir(parent) as entries:
            for entry in entries:
                if time.monotonic() > deadline:
                    return
                if _FOLDER.fullmatch(entry.name):
                    _remove_unused(Path(entry.path))


def sweep_environments(parent: Path = ENVIRONMENTS) -> None:
    """Remove the empty folders here that our user's servers have left. Those that a running one may need stay."""
    deadline = time.monotonic() + SWEEP_SECONDS
    oldest = min((each.started_s for each in processes() if _is_server(each.pid)), default=None)
    since_start = time.clock_gettime(time.CLOCK_BOOTTIME)
    unused_before = time.time() - (0.0 if oldest is None else since_start - oldest + CLOCK_ERROR_SECONDS)
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if time.monotonic() > deadline:
                return
            if _ENVIRONMENT.fullmatch(entry.name):
                with suppress(OSError):  # it has content, or somebody has removed it
                    status = entry.stat(follow_symlinks=False)
                    if status.st_uid == os.geteuid() and status.st_mtime < unused_before:
                        Path(entry.path).rmdir()


def _is_server(pid: int) -> bool:
    return any(Path(program).name == "tritonserver" for program in command(pid)[:1])


def _remove_unused(folder: Path) -> None:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # it was removed, is a link or no folder, or belongs to another user
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            with suppress(BlockingIOError):  # the folder is in use
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
    finally:
        os.close(lock)


def _is_safe_parent(folder: Path) -> bool:
    """Return whether no user can replace files of other users in this folder."""
    mode = folder.stat().st_mode
    return bool(mode & stat.S_ISVTX) or not mode & stat.S_IWOTH
