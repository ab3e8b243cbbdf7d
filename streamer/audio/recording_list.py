"""Lists the recordings that a command line names: single files, and all recordings in folders and below."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from streamer.audio.recording_check import FFMPEG_ENDINGS, SOUNDFILE_ENDINGS, AudioError
from streamer.fetching import is_address

STDIN: Final = "-"
_TRANSPORT_ENDING: Final = ".ts"
_TRANSPORT_PACKET: Final = 188  # bytes
_TRANSPORT_BYTE: Final = b"G"


@dataclass(frozen=True)
class ListedRecording:
    """A recording: its name for opening it, and its path within the named folder, such as `monday/first.wav`."""

    name: str
    path: PurePath

    @classmethod
    def of_name(cls, name: str) -> ListedRecording:
        """Return the recording with this name, which is not part of a folder."""
        file = _file_name_of(name) if is_address(name) else Path(name).name
        return cls(name, PurePath("stdin" if name == STDIN else file))


def list_recordings(name: str) -> tuple[list[ListedRecording], list[AudioError]]:
    """Return the recording with this name, or those in the folder with this name; and the errors.

    The path of a recording is the one below the folder, so that the structure of the folder can be kept.
    """
    if not name:  # an unset variable of a shell
        return [], [AudioError("the name of a recording is empty.")]
    if name == STDIN or is_address(name) or not Path(name).is_dir():
        return [ListedRecording.of_name(name)], []
    unread: list[OSError] = []
    recordings = [ListedRecording(path, PurePath(path).relative_to(name)) for path in _files(name, unread)]
    errors = [AudioError(f"{error.filename} cannot be read: {error.strerror}.") for error in unread]
    if not recordings and not errors:
        errors = [AudioError(f"{name} is a folder without recordings: no file in it or below has a known ending.")]
    return recordings, errors


def _file_name_of(address: str) -> str:
    """Return a file name for the recording at an address: the last part of its path, or else the host name."""
    try:
        parts = urlsplit(address)
    except ValueError:  # reported when it is opened
        return "recording"
    last = re.sub(r"[^\w.() -]", "_", PurePosixPath(unquote(parts.path)).name).strip(". ")
    return last or parts.hostname or "recording"


def _files(folder: str, unread: list[OSError]) -> Iterator[str]:
    for parent, folders, files in os.walk(folder, onerror=unread.append):
        folders[:] = _sort(folders)
        for file in _sort(files):
            if _is_recording(Path(parent, file)):
                yield str(Path(parent, file))


def _is_recording(path: Path) -> bool:
    ending = path.suffix.lower()
    if ending == _TRANSPORT_ENDING and path.is_file():
        return _is_transport_stream(path)
    return ending in SOUNDFILE_ENDINGS | FFMPEG_ENDINGS


def _is_transport_stream(path: Path) -> bool:
    """Return whether this is a video, and not TypeScript: each packet of a video begins with the same byte."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_TRANSPORT_PACKET + 1)
    except OSError:
        return True  # the error is reported when the file is opened
    return beginning[:1] == beginning[_TRANSPORT_PACKET:] == _TRANSPORT_BYTE


def _sort(names: Iterable[str]) -> list[str]:
    """Return the names in natural order, track 2 before track 10, without hidden files."""
    return sorted((name for name in names if not name.startswith(".")), key=_order)


def _order(name: str) -> list[tuple[int, int | str]]:
    pieces = re.split(r"([0-9]+)", name.casefold())
    return [(0, int(piece)) if index % 2 else (1, piece) for index, piece in enumerate(pieces)] + [(2, name)]
