"""Unpacks the archive of a model without trusting it: nothing in it can reach outside its folder, or fill the disk.

Only files and folders are made, and all bytes are counted as they come out of the archive.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Final

from streamer.library import FULL, LibraryError, NoSpaceError, Observer
from streamer.library.catalogue import ENDINGS

MOST_BYTES: Final = 8 << 30
MOST_ENTRIES: Final = 2000
_BLOCK: Final = 1 << 16
_GRAPH: Final = "*.onnx"
# The errors for a file that is cut off or damaged. Python's reader raises the last three for malicious files.
_BROKEN: Final = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, ValueError, OverflowError, RecursionError)


def unpack(archive: Path, folder: Path, observer: Observer) -> None:
    """Unpack into this new folder. LibraryError if the archive is damaged, unsafe or too large."""
    folder.mkdir()
    try:
        with archive.open("rb") as raw, _open_uncompressed(raw) as content:
            limit = min(MOST_BYTES, shutil.disk_usage(folder).free)
            reader = _CountingReader(content, limit)
            with tarfile.open(fileobj=reader, mode="r:") as tar:  # type: ignore[call-overload]
                size, entries = archive.stat().st_size, 0
                for entry in tar:
                    entries += 1
                    if entries > MOST_ENTRIES:
                        raise LibraryError(f"{archive} has more than {MOST_ENTRIES} files, which no model has")
                    _make(tar, entry, folder, limit)
                    observer.progress("unpacked", raw.tell(), size)
                if not entries:
                    raise tarfile.ReadError
    except _Excess as error:
        raise LibraryError(f"{archive} unpacks to more than {error.args[0] / 1e9:.1f} GB, which is the limit") from None
    except _BROKEN as error:
        raise LibraryError(f"{archive} is damaged, cut off, or not an archive ({', '.join(ENDINGS)})") from error
    except OSError as error:
        if error.errno in FULL:
            raise NoSpaceError(f"no space is left in {folder.parent}: free some and try again") from error
        # Damaged data of bzip2 and gzip is reported without a number.
        reason = "is damaged" if error.errno is None else f"cannot be unpacked: {error.strerror}"
        raise LibraryError(f"{archive} {reason}") from error


def model_in(folder: Path) -> Path:
    """Return the only folder with graphs in an unpacked archive. LibraryError if there is none, or several."""
    folders = sorted({path.parent for path in folder.rglob(_GRAPH)})
    if len(folders) == 1:
        return folders[0]
    if not folders:
        raise LibraryError(f"there is no model in it (no file {_GRAPH})")
    names = ", ".join(str(path.relative_to(folder)) for path in folders)
    raise LibraryError(f"there are several models in it ({names}): import the folder of one")


class _Excess(Exception):
    """The content is larger than the limit, which is the argument, in bytes."""


class _CountingReader:
    """Reads and counts uncompressed content, forwards only and in small pieces.

    A malicious header may claim to be gigabytes long, or to begin before the present place.
    """

    def __init__(self, content: IO[bytes], limit: int) -> None:
        self._content = content
        self._limit = limit
        self._at = 0

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end."""
        if not 0 <= size <= _BLOCK:
            raise tarfile.ReadError("a header is too long")
        data = self._content.read(size)
        self._at += len(data)
        if self._at > self._limit:
            raise _Excess(self._limit)
        return data

    def seek(self, place: int) -> None:
        """Go forwards to a position."""
        if place < self._at:
            raise tarfile.ReadError("an entry begins before the end of another one")
        while self._at < place and self.read(min(_BLOCK, place - self._at)):
            pass

    def tell(self) -> int:
        """Return the present position."""
        return self._at


def _open_uncompressed(raw: IO[bytes]) -> IO[bytes]:
    begin = raw.read(6)
    raw.seek(0)
    if begin.startswith(b"BZh"):
        return bz2.open(raw)
    if begin.startswith(b"\x1f\x8b"):
        return gzip.open(raw)  # type: ignore[return-value]
    if begin == b"\xfd7zXZ\x00":
        return lzma.open(raw)
    return raw


def _make(tar: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path, limit: int) -> None:
    """Make this file or folder. LibraryError if its name or kind is unsafe."""
    name = PurePosixPath(entry.name)
    if name.is_absolute() or ".." in name.parts or "\\" in entry.name or ":" in entry.name:
        raise LibraryError(f"the archive is unsafe: it has a file named {entry.name[:80]!r}, outside its folder")
    if entry.islnk() or entry.issym():
        target = PurePosixPath(entry.linkname) if entry.islnk() else name.parent / entry.linkname
        if target.is_absolute() or os.path.normpath(target).startswith(".."):
            raise LibraryError(f"the archive is unsafe: {entry.name[:80]!r} links to {entry.linkname[:80]!r}")
        return  # links to other files of the archive are left out: models do not need them
    if not (entry.isreg() or entry.isdir()):
        raise LibraryError(f"the archive is unsafe: {entry.name[:80]!r} is neither a file nor a folder")
    # Python's own filter, if this Python has it, detects more attacks.
    if hasattr(tarfile, "data_filter"):
        try:
            tarfile.data_filter(entry, str(folder))
        except tarfile.FilterError as error:
            raise LibraryError(f"the archive is unsafe: {error}") from error
    path = folder / name
    if entry.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    if entry.size > limit:
        raise _Excess(limit)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(entry)
    if content is None:
        raise tarfile.ReadError
    # Exclusively: a second file of the same name is an attack, or a sign of a damaged archive.
    with content, path.open("xb") as file:
        while data := content.read(_BLOCK):
            file.write(data)
    if path.stat().st_size != entry.size:
        raise tarfile.ReadError
