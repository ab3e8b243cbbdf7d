"""The recordings that a command line names: lists them, and checks that each can be read and is complete."""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO, Final
from urllib.parse import unquote, urlsplit

from streamer.base.address import is_address
from streamer.base.wave_header import WaveHeader, wave_header

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


# Checks a recording before it is decoded: it must exist, be readable, and not be empty.

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


# Checks whether a recording is complete: by the length in its header, and by the end mark of Ogg.

_HEAD: Final = 1 << 16  # bytes that may come before the samples
_OGG_TAIL: Final = 128 * 1024  # a page has at most 65 307 bytes
_OGG_PAGE: Final = struct.Struct("<4sBBqIIIB")
_LAST_PAGE: Final = 4


def header_of(file: BinaryIO | FileIO) -> WaveHeader | None:
    """Return the header of a WAV file. None for other files."""
    file.seek(0)
    return wave_header(file.read(_HEAD) or b"")


class FileWithLength:
    """A WAV file without a length in its header. It is read as if the header had the right one."""

    def __init__(self, file: FileIO, header: WaveHeader) -> None:
        self._file = file
        size = file.seek(0, os.SEEK_END) - header.begin
        self._place, self._patch = header.begin - 4, min(size, 0xFFFFFFFF).to_bytes(4, "little")
        file.seek(0)

    def read(self, most: int = -1) -> bytes:
        """Return the next bytes."""
        begin = self._file.tell()
        data = bytearray(self._file.read(most) or b"")
        for index, byte in enumerate(self._patch, self._place - begin):
            if 0 <= index < len(data):
                data[index] = byte
        return bytes(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position, and return it."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def write(self, data: bytes) -> int:
        """Raise OSError: the file can only be read."""
        raise OSError("not writable")


def with_length(file: FileIO, header: WaveHeader | None) -> FileWithLength | None:
    """Return the file with a length in its header, if that has none although samples follow. None for other files."""
    if header is None or header.size is not None:
        return None
    length = file.seek(0, os.SEEK_END)
    file.seek(header.begin)
    following = file.read(8) or b""
    file.seek(0)
    # A file without samples may have other chunks there.
    notes = following[:4].isalnum() and header.begin + 8 + int.from_bytes(following[4:], "little") <= length
    if len(following) < 8 or notes:
        return None
    return FileWithLength(file, header)


def lacks_end_mark(file: BinaryIO | FileIO) -> bool:
    """Return whether this is an Ogg file whose last page is not marked as the last."""
    file.seek(0)
    if file.read(4) != b"OggS":
        return False
    file.seek(max(0, file.seek(0, os.SEEK_END) - _OGG_TAIL))
    tail = file.read(_OGG_TAIL) or b""
    place = tail.rfind(b"OggS")
    if place < 0 or place + _OGG_PAGE.size > len(tail):
        return True
    _, _, kind, _, _, _, _, segments = _OGG_PAGE.unpack_from(tail, place)
    lengths = tail[place + _OGG_PAGE.size : place + _OGG_PAGE.size + segments]
    whole = len(lengths) == segments and place + _OGG_PAGE.size + segments + sum(lengths) <= len(tail)
    return not (kind & _LAST_PAGE and whole)
