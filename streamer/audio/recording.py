"""A recording before anything is decoded: is it there, may it be read, is anything in it.

Standard library only, so that the command line can ask before it imports or starts anything.
"""

from __future__ import annotations

import stat
from io import FileIO
from pathlib import Path
from typing import Final

# The endings of recordings, for who looks for them; a file that is named is tried whatever its ending.
AUDIO: Final = frozenset(
    {".wav", ".wave", ".flac", ".ogg", ".oga", ".opus", ".mp3"}
    | {".aif", ".aiff", ".aifc", ".au", ".caf", ".w64", ".rf64"}
)
# The sound of these comes through ffmpeg.
THROUGH_FFMPEG: Final = frozenset(
    {".m4a", ".m4b", ".aac", ".wma", ".amr", ".mka", ".ac3"}
    | {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".wmv", ".mpg", ".mpeg", ".ts", ".3gp", ".flv"}
)


class AudioError(Exception):
    """What is wrong with a recording, in one sentence for the person who named it."""


def open_recording(name: str) -> FileIO:
    """The opened file, if it is a regular one and not empty; an AudioError otherwise."""
    try:
        status = Path(name).stat()
        if stat.S_ISDIR(status.st_mode):
            raise AudioError(f"{name} is a folder, not a recording.")
        if not stat.S_ISREG(status.st_mode):
            raise AudioError(f"{name} is not a regular file: raw PCM can be piped into '-'.")
        if status.st_size == 0:
            raise AudioError(f"{name} is empty (0 bytes).")
        return FileIO(name)
    except FileNotFoundError:
        raise AudioError(f"{name}: there is no such file.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise AudioError(f"{name} cannot be opened: {reason}.") from error


def check_readable(name: str) -> None:
    """Raises AudioError unless the file can be opened; looks no deeper."""
    open_recording(name).close()
