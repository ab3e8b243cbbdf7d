"""Checks a recording before it is decoded: it must exist, be readable, and not be empty.

Standard library only, so that the command line can check before it imports or starts anything else.
"""

from __future__ import annotations

import stat
from io import FileIO
from pathlib import Path
from typing import Final

from streamer.fetching import is_address

# A folder is searched for files with these endings. A file that the user names is opened whatever its ending.
SOUNDFILE_ENDINGS: Final = frozenset(
    {".wav", ".wave", ".flac", ".ogg", ".oga", ".opus", ".mp3"}
    | {".aif", ".aiff", ".aifc", ".au", ".caf", ".w64", ".rf64"}
)
# These are read with ffmpeg.
FFMPEG_ENDINGS: Final = frozenset(
    {".m4a", ".m4b", ".aac", ".wma", ".amr", ".mka", ".ac3"}
    | {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".wmv", ".mpg", ".mpeg", ".ts", ".3gp", ".flv"}
)


class AudioError(Exception):
    """A recording cannot be used. The message says why in one sentence for the user who named it."""


def must_be_fetched(name: str) -> bool:
    """Return whether this is an address or a pipe, which can be read only once."""
    try:
        return is_address(name) or stat.S_ISFIFO(Path(name).stat().st_mode)
    except (OSError, ValueError):
        return False


def open_recording(name: str) -> FileIO:
    """Open the file. AudioError unless it is a regular file and not empty."""
    try:
        status = Path(name).stat()
        if stat.S_ISDIR(status.st_mode):
            raise AudioError(f"{name} is a folder, not a recording.")
        if not stat.S_ISREG(status.st_mode):
            raise AudioError(f"{name} is not a regular file.")
        if status.st_size == 0:
            raise AudioError(f"{name} is empty (0 bytes).")
        return FileIO(name)
    except FileNotFoundError:
        raise AudioError(f"{name}: there is no such file.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise AudioError(f"{name} cannot be opened: {reason}.") from error


def check_readable(name: str) -> None:
    """Raise AudioError unless the file can be opened, or is a pipe or an address. Its content is not examined."""
    if is_address(name):
        if not name.partition("://")[2].strip("/"):
            raise AudioError(f"{name} is not an address: it has no host name.")
    elif not must_be_fetched(name):
        open_recording(name).close()
