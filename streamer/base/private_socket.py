"""Unix sockets that only this user can open, for requests to a process of theirs."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

_ANSWER_S: Final = 5.0


class SocketError(Exception):
    """There can be no such socket. The message says why, as a part of a sentence."""


class InsecureFolderError(SocketError):
    """Other users could replace the socket."""


def runtime_path(name: str) -> Path:
    """Return the path of the socket with this name, in a folder that only this user can write."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "streamer" if runtime else Path(tempfile.gettempdir()) / f"streamer-{os.geteuid()}"
    return folder / name


class PrivateSocket:
    """A socket at a path, from `bind` to `remove`. The folder is made if it is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity: tuple[int, int, int] | None = None

    def bind(self) -> socket.socket:
        """Return the socket, in the place of one that was left there. SocketError if that is not possible."""
        try:
            _own_folder(self.path.parent)
            if answers(self.path):
                raise SocketError(f"another process already listens at {self.path}")
            bound = _bound(self.path)
            self._identity = _identity(self.path)
        except OSError as error:
            raise SocketError(f"cannot listen at {self.path}: {error.strerror or error}") from error
        return bound

    def remove(self) -> None:
        """Remove it, unless another process has replaced it."""
        with suppress(OSError):
            if _identity(self.path) == self._identity:
                self.path.unlink()


def answers(path: Path) -> bool:
    """Return whether a process listens at this path."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_S)
        try:
            connection.connect(str(path))
        except OSError:
            return False
    return True


def _own_folder(folder: Path) -> None:
    """Make the folder, or check it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise InsecureFolderError(f"{folder} is not a folder")
    sticky = found.st_mode & stat.S_ISVTX
    if found.st_uid not in (0, os.geteuid()) or (found.st_mode & 0o022 and not sticky):
        raise InsecureFolderError(f"other users may write to {folder}")


def _bound(path: Path) -> socket.socket:
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    made = socket.socket(socket.AF_UNIX)
    try:
        made.bind(str(path))
        # Nobody can connect before it listens. A umask would also count for the files of other threads.
        path.chmod(0o600)
    except BaseException:
        made.close()
        raise
    return made


def _identity(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino, found.st_ctime_ns  # the number of a removed file is used again
