"""Makes a model of the library from an address, an archive or a folder: fetched, unpacked, checked, or not at all."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import os
import shutil
import ssl
import tarfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import IO, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote

from streamer.base.web_address import STALL_S, open_address, reason_of
from streamer.models.library import (
    ENDINGS,
    FULL,
    KnownModel,
    LibraryError,
    ModelLibrary,
    NoSpaceError,
    Observer,
    PublishedFile,
    part_file,
    sha256_of,
)
from streamer.models.model_folder import ModelFolderError, holds_graphs, read_any_folder
from streamer.models.moonshine_folder import CONFIG_FILE


def fetch_model(
    library: ModelLibrary, model: KnownModel, observer: Observer, patience: Patience | None = None, mirror: str = ""
) -> Path:
    """Fetch a model, and return its folder. LibraryError if its checksum is wrong, or it cannot be used.

    `mirror`: the address of a folder that has the same archive. The checksum remains that of the model's own address.
    """
    if model.files:
        return _fetch_single_files(library, model, observer, patience, mirror or model.address)
    source = file_at(mirror, model.archive_name) if mirror else model.address
    with library.locked(model.name):
        work = library.work_folder(model.name)
        part = part_file(work)
        try:
            fetch(source, part, observer, patience)
        finally:
            if not (part.is_file() and part.stat().st_size):
                shutil.rmtree(work, ignore_errors=True)  # not one byte came, so nothing can be continued
        checksum = _checksum_of(library, model, part, source)
        try:
            folder = _from_archive(library, model.name, part, observer)
        except NoSpaceError:
            raise
        except LibraryError:
            shutil.rmtree(work, ignore_errors=True)
            raise
        _set_pin(library, model, checksum, observer)
        return folder


def _fetch_single_files(
    library: ModelLibrary, model: KnownModel, observer: Observer, patience: Patience | None, source: str
) -> Path:
    """Fetch a model that is published in single files from the folder at the address `source`."""
    with library.locked(model.name):
        work = library.work_folder(model.name)
        try:
            with fetch_files(work, model.files, source, observer, patience) as kept:
                listed = "".join(f"{sha256_of(kept / file.name)}  {file.name}\n" for file in model.files)
                checksum = hashlib.sha256(listed.encode()).hexdigest()
                _check_pin(library, model, checksum, work, source)
                try:
                    folder = _put_in_place(library, model.name, kept)
                except LibraryError:
                    shutil.rmtree(work, ignore_errors=True)
                    raise
        finally:
            if work.is_dir() and not _size(part_file(work)) and not (work / FILES).is_dir():
                shutil.rmtree(work, ignore_errors=True)  # nothing came with which another command could go on
        _set_pin(library, model, checksum, observer)
        return folder


def _set_pin(library: ModelLibrary, model: KnownModel, checksum: str, observer: Observer) -> None:
    library.set_pin(model.name, model.address, checksum)
    if not model.sha256:
        observer.say(f"nobody has published a checksum; sha256 {checksum} is expected from now on")


def import_model(library: ModelLibrary, name: str, path: Path, observer: Observer) -> Path:
    """Make a model from an archive or a folder on this machine, which is not changed. Return its new folder."""
    with library.locked(name):
        if library.find(name) is not None:
            raise LibraryError(f"there is a model {name} already: remove it first, or give another name with --name")
        if not path.is_dir():
            if not path.is_file():
                reason = "is neither an archive nor a folder" if path.exists() else "does not exist"
                raise LibraryError(f"{path} {reason}")
            return _from_archive(library, name, path, observer)
        if not holds_graphs(path):
            raise LibraryError(f"{path} is not the folder of a public model: it has no file *.onnx")
        _check(path, path)
        with library.new_folder(name) as new:
            new.mkdir()
            # Without subfolders: they hold recordings for tests.
            for file in sorted(each for each in path.iterdir() if each.is_file()):
                shutil.copyfile(file, new / file.name)
            return _put_in_place(library, name, new)


def _checksum_of(library: ModelLibrary, model: KnownModel, part: Path, source: str) -> str:
    """Return the checksum of the archive. If another one is expected, delete the part and raise LibraryError."""
    checksum = sha256_of(part)
    _check_pin(library, model, checksum, part.parent, source)
    return checksum


def _check_pin(library: ModelLibrary, model: KnownModel, checksum: str, work: Path, source: str) -> None:
    """If another checksum is expected, delete what came and raise LibraryError."""
    pin = library.pin(model.name)
    pinned_checksum = str(pin.get("sha256", "")) if pin.get("address") == model.address else ""
    # What the user or the catalogue expects counts more than what was remembered.
    expected = model.sha256.lower() or pinned_checksum
    if checksum == expected or not expected:
        return
    if not model.sha256:
        remedy = f"if it was replaced on purpose, give --checksum {checksum}"
        message = f"{source} is not what it was when it was fetched first (its sha256 was {pinned_checksum}): {remedy}"
    else:
        message = f"{source} has another checksum than expected: sha256 {checksum}, not {model.sha256.lower()}"
    shutil.rmtree(work)
    raise LibraryError(f"{message}. The archive was deleted")


def _from_archive(library: ModelLibrary, name: str, archive: Path, observer: Observer) -> Path:
    with library.new_folder(name) as new:
        unpack(archive, new, observer)
        try:
            folder = model_in(new)
        except LibraryError as error:
            raise LibraryError(f"{archive} cannot be used: {error}") from error
        return _put_in_place(library, name, folder)


def _put_in_place(library: ModelLibrary, name: str, folder: Path) -> Path:
    """Check a complete folder and make it visible."""
    _check(folder, Path())
    return library.put(name, folder)


def _check(folder: Path, display_path: Path) -> None:
    """Raise LibraryError if the model cannot be used. `display_path`: the folder's name in the message."""
    try:
        read_any_folder(folder)
    except ModelFolderError as error:
        message = (
            str(error)
            if display_path == folder
            else str(error).replace(f"{folder}{os.sep}", "").replace(str(folder), "it")
        )
        raise LibraryError(f"this model cannot be used: {message}") from error


# Fetches an archive into a part-file. An interrupted download goes on where it ended, unless the archive has changed.

MOST_DOWNLOADED_BYTES: Final = 4 << 30
# The size of an unpacked model, in relation to its archive. Compression hardly shrinks weights.
UNPACKED: Final = 1.5
_DOWNLOADED_BYTES: Final = 1 << 16
_ENOUGH: Final = 1 << 20  # bytes; after an attempt that brought this much, the count of attempts begins again
_AGAIN: Final = (408, 425, 429)  # statuses below 500 after which another attempt may succeed
_RANGE_WRONG: Final = 416
_PARTIAL: Final = 206
_LONGEST_WAIT_S: Final = 60.0


@dataclass(frozen=True)
class Patience:
    """How long to wait for data, and how often to try again. Every wait is twice as long as the one before."""

    stall_s: float = STALL_S
    attempts: int = 6
    wait_s: float = 1.0


@dataclass(frozen=True)
class _Part:
    """The archive to which a part-file belongs."""

    address: str
    mark: str
    whole: int | None


class _Interrupted(Exception):
    """The attempt has failed, but another one may succeed. The message is a part of a sentence."""


def file_at(mirror: str, name: str) -> str:
    """Return the address of a file in the folder at this address."""
    return f"{mirror.rstrip('/')}/{quote(name)}"


def fetch(address: str, part: Path, observer: Observer, patience: Patience | None = None) -> None:
    """Download the archive into `part`. LibraryError if that fails; the bytes so far are kept."""
    patience = patience or Patience()
    attempts, wait = patience.attempts, patience.wait_s
    while True:
        before = _size(part)
        try:
            _attempt(address, part, observer, patience.stall_s)
            return
        except _Interrupted as error:
            attempts, wait = (
                (patience.attempts, patience.wait_s) if _size(part) >= before + _ENOUGH else (attempts, wait)
            )
            attempts -= 1
            if not attempts:
                hint = "; the bytes so far are kept, and the same command goes on from there" if _size(part) else ""
                raise LibraryError(f"{address} could not be fetched: {error}{hint}") from error
            observer.say(f"{error}; trying again")
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)


FILES: Final = "files"  # in the hidden folder of a model or reader: the single files that have come whole


@contextmanager
def fetch_files(
    work: Path, files: Sequence[PublishedFile], address: str, observer: Observer, patience: Patience | None
) -> Iterator[Path]:
    """Fetch these files from the folder at this address, and provide the folder in `work` with all of them.

    A file that came before is not fetched again. LibraryError if one of them is not what its makers published.
    """
    part, kept = part_file(work), work / FILES
    kept.mkdir(exist_ok=True)
    try:
        for file in files:
            path, source = kept / file.name, file_at(address, file.name)
            if _size(path) == file.size and (not file.sha256 or sha256_of(path) == file.sha256):
                continue
            fetch(source, part, observer, patience)
            check_file(file, part, source)
            part.replace(path)
        yield kept
    finally:
        if kept.is_dir() and not any(kept.iterdir()):
            kept.rmdir()


def check_file(file: PublishedFile, path: Path, source: str) -> None:
    """Delete the file at this path and raise LibraryError if it is another one than expected."""
    if file.sha256:
        is_there = sha256_of(path) if path.is_file() else "of no file"
        if is_there == file.sha256:
            return
        message = f"{source} has another checksum than expected: sha256 {is_there}, not {file.sha256}"
    else:
        if _size(path) == file.size:
            return
        message = f"{source} has {_size(path)} bytes instead of {file.size}"
    path.unlink(missing_ok=True)
    raise LibraryError(f"{message}. The file was deleted")


def _attempt(address: str, part: Path, observer: Observer, stall_s: float) -> None:
    former = _read_part(part)
    offset = _size(part) if former is not None and former.address == address and former.mark else 0
    if former is not None and offset and offset == former.whole:
        return
    headers = {"Accept-Encoding": "identity"}
    if offset and former:
        headers |= {"Range": f"bytes={offset}-", "If-Range": former.mark}
    try:
        with open_address(address, headers, stall_s) as answer:
            _receive(answer, address, part, offset, observer)
    except HTTPError as error:
        error.close()
        if error.code == _RANGE_WRONG and offset:
            part.unlink()
            raise _Interrupted("the part that was here does not fit the archive any more") from error
        if error.code in _AGAIN or error.code >= 500:
            raise _Interrupted(reason_of(error)) from error
        raise LibraryError(f"{address} cannot be fetched: {reason_of(error)}") from error
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise NoSpaceError(
                f"no space is left in {part.parent}: free some, and the same command goes on from there"
            ) from error
        if _may_pass(error):
            raise _Interrupted(reason_of(error, stall_s)) from error
        raise LibraryError(f"{address} cannot be fetched: {reason_of(error)}") from error


def _may_pass(error: Exception) -> bool:
    """Return whether another attempt may succeed. If a name or a certificate is wrong, it cannot."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLError):
        return not isinstance(cause, ssl.SSLCertVerificationError)
    return isinstance(cause, (TimeoutError, ConnectionError, HTTPException))


def _receive(answer: HTTPResponse, address: str, part: Path, offset: int, observer: Observer) -> None:
    """Write the answer to `part`. `offset`: how many bytes the request left out; a server may send all the same."""
    if offset and (answer.status != _PARTIAL or not _begins_at(answer, offset)):
        offset = 0
    length = answer.headers.get("Content-Length", "")
    whole = offset + int(length) if length.isdecimal() else None
    if whole is not None:
        _check_room(address, part, offset, whole)
    first = answer.read1(_DOWNLOADED_BYTES)
    if not offset and _is_page(answer, first):
        raise LibraryError(
            f"{address} gave a web page in place of an archive: perhaps a proxy or a login stands in between"
        )
    part.with_suffix(".json").write_text(json.dumps(asdict(_Part(address, _mark(answer), whole))), encoding="utf-8")
    with part.open("ab" if offset else "wb") as file:
        data = first
        while data:
            file.write(data)
            offset += len(data)
            if offset > MOST_DOWNLOADED_BYTES:
                raise LibraryError(f"{address} is too large: the limit is {MOST_DOWNLOADED_BYTES >> 30} GiB")
            observer.progress("fetched", offset, whole)
            data = answer.read1(_DOWNLOADED_BYTES)
    if whole is not None and offset < whole:
        raise _Interrupted(f"the connection ended after {offset} of {whole} bytes")


def _check_room(address: str, part: Path, offset: int, whole: int) -> None:
    if whole > MOST_DOWNLOADED_BYTES:
        raise LibraryError(
            f"{address} is too large: {whole / 1e9:.1f} GB, and the limit is {MOST_DOWNLOADED_BYTES >> 30} GiB"
        )
    required, free = whole - offset + int(UNPACKED * whole), shutil.disk_usage(part.parent).free
    if required > free:
        raise NoSpaceError(
            f"there is not enough space in {part.parent}: about {required / 1e6:.0f} MB are needed for the archive and "
            f"the model, and {free / 1e6:.0f} MB are free"
        )


def _begins_at(answer: HTTPResponse, offset: int) -> bool:
    return str(answer.headers.get("Content-Range", "")).startswith(f"bytes {offset}-")


def _mark(answer: HTTPResponse) -> str:
    """Return the mark by which the server recognises this version; empty if it gives no exact one."""
    tag = str(answer.headers.get("ETag", ""))
    if tag and not tag.startswith("W/"):
        return tag
    return str(answer.headers.get("Last-Modified", ""))


def _is_page(answer: HTTPResponse, first: bytes) -> bool:
    return answer.headers.get_content_type() == "text/html" or first.lstrip()[:1] == b"<"


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except OSError:
        return 0


def _read_part(part: Path) -> _Part | None:
    try:
        return _Part(**json.loads(part.with_suffix(".json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


# Unpacks the archive of a model without trusting it: nothing in it can reach outside its folder, or fill the disk.

MOST_UNPACKED_BYTES: Final = 8 << 30
MOST_ENTRIES: Final = 2000
MOST_HEADER_BYTES: Final = 1 << 15  # before each file: its name, and what a header adds to it
MOST_FOLDERS: Final = 16  # above each file: a long path alone would make a thousand folders
_BLOCK: Final = 1 << 16
_GRAPH: Final = "*.onnx"
# The errors for a file that is cut off or damaged. Python's reader raises the last four for malicious files.
_BROKEN: Final = (
    tarfile.TarError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    ValueError,
    OverflowError,
    RecursionError,
    IndexError,
)


def unpack(archive: Path, folder: Path, observer: Observer) -> None:
    """Unpack into this new folder. LibraryError if the archive is damaged, unsafe or too large."""
    folder.mkdir()
    limit = room = min(MOST_UNPACKED_BYTES, shutil.disk_usage(folder).free)
    try:
        with archive.open("rb") as raw, _open_uncompressed(raw) as content:
            reader = _CountingReader(content, limit)
            with tarfile.open(fileobj=reader, mode="r:") as tar:  # type: ignore[call-overload]
                size, entries = archive.stat().st_size, 0
                for entry in tar:
                    entries += 1
                    if entries > MOST_ENTRIES:
                        raise LibraryError(f"{archive} has more than {MOST_ENTRIES} files, which no model has")
                    reader.allow(entry.size)
                    room -= _make(tar, entry, folder, room)
                    reader.allow(MOST_HEADER_BYTES)
                    observer.progress("unpacked", raw.tell(), size)
                if not entries:
                    raise tarfile.ReadError
    except _Excess:
        raise LibraryError(f"{archive} unpacks to more than {limit / 1e9:.1f} GB, which is the limit") from None
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
    folders = sorted({path.parent for pattern in (_GRAPH, CONFIG_FILE) for path in folder.rglob(pattern)})
    if len(folders) == 1:
        return folders[0]
    if not folders:
        raise LibraryError(f"there is no model in it (no file {_GRAPH})")
    names = ", ".join(str(path.relative_to(folder)) for path in folders)
    raise LibraryError(f"there are several models in it ({names}): import the folder of one")


class _Excess(Exception):
    """The content is larger than the limit."""


class _CountingReader:
    """Reads and counts uncompressed content, forwards only and in small pieces.

    A malicious header may claim to be gigabytes long, or to begin before the present place. Or it is as long as that: a
    list of the parts of a sparse file, which Python's reader keeps in memory.
    """

    def __init__(self, content: IO[bytes], limit: int) -> None:
        self._content = content
        self._limit = limit
        self._at = 0
        self._allowed = MOST_HEADER_BYTES

    def allow(self, size: int) -> None:
        """Set how many bytes may be read from now on: those of a header, or of a file."""
        self._allowed = size

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end."""
        if not 0 <= size <= _BLOCK:
            raise tarfile.ReadError("a header is too long")
        data = self._read(size)
        self._allowed -= len(data)
        if self._allowed < 0:
            raise tarfile.ReadError("a header is too long")
        return data

    def _read(self, size: int) -> bytes:
        data = self._content.read(size)
        self._at += len(data)
        if self._at > self._limit:
            raise _Excess
        return data

    def seek(self, place: int) -> None:
        """Go forwards to a position."""
        if place < self._at:
            raise tarfile.ReadError("an entry begins before the end of another one")
        while self._at < place and self._read(min(_BLOCK, place - self._at)):
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


def _make(tar: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path, room: int) -> int:
    """Make this file or folder, and return how many bytes were written. LibraryError if its name or kind is unsafe."""
    name = PurePosixPath(entry.name)
    if name.is_absolute() or ".." in name.parts or "\\" in entry.name or ":" in entry.name:
        raise LibraryError(f"the archive is unsafe: it has a file named {entry.name[:80]!r}, outside its folder")
    if len(name.parts) > MOST_FOLDERS:
        raise LibraryError(f"the archive is unsafe: {entry.name[:80]!r} is in more than {MOST_FOLDERS - 1} folders")
    if entry.islnk() or entry.issym():
        target = PurePosixPath(entry.linkname) if entry.islnk() else name.parent / entry.linkname
        if target.is_absolute() or os.path.normpath(target).startswith(".."):
            raise LibraryError(f"the archive is unsafe: {entry.name[:80]!r} links to {entry.linkname[:80]!r}")
        return 0  # links to other files of the archive are left out: models do not need them
    if entry.issparse():
        raise LibraryError(
            f"the archive is unsafe: {entry.name[:80]!r} is a sparse file, which can be far larger than the archive: "
            "pack it again without sparse files"
        )
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
        return 0
    if entry.size > room:
        raise _Excess
    path.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(entry)
    if content is None:
        raise tarfile.ReadError
    written = 0
    # Exclusively: a second file of the same name is an attack, or a sign of a damaged archive.
    with content, path.open("xb") as file:
        while data := content.read(_BLOCK):
            written += len(data)
            if written > room:
                raise _Excess
            file.write(data)
    if written != entry.size:
        raise tarfile.ReadError
    return written
