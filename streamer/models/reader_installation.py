"""Fetches a reader from the package that carries it, or from its makers. The package is unpacked without trust."""

from __future__ import annotations

import io
import shutil
import stat
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from streamer.models.installation import FILES, Patience, check_file, fetch, fetch_files, file_at
from streamer.models.library import (
    LibraryError,
    ModelLibrary,
    NoSpaceError,
    Observer,
    PublishedFile,
    part_file,
    sha256_of,
)
from streamer.models.readers import (
    LICENCE_FILE,
    KnownReader,
    ReaderWheel,
    check_reader,
    known_readers,
    lacks,
)
from streamer.models.whisper_folder import whisper_lacks

WHEEL: Final = ".whl"
_PIP_PATIENCE_S: Final = 600.0


def fetch_reader(
    readers: ModelLibrary,
    reader: KnownReader,
    observer: Observer,
    patience: Patience | None = None,
    mirror: str = "",
) -> Path:
    """Fetch a reader, and return its folder. LibraryError if no source has it, or its connection ends too often.

    The sources are tried in this order: its package on PyPI, what pip finds (pip may know another index), and its
    makers. One that has given bytes is not left for the next: the same command goes on with it.
    `mirror`: the address of a folder that has its package; no other source is tried.
    """
    address = file_at(mirror, reader.wheel.file_name) if mirror else reader.wheel.address
    sources: list[tuple[str, Callable[[], Path]]] = [
        (address, partial(_from_address, readers, reader, address, observer, patience))
    ]
    if not mirror:
        sources.append(("pip", partial(_from_pip, readers, reader, observer)))
        for folder in reader.addresses:
            sources.append((folder, partial(_from_makers, readers, reader, folder, observer, patience)))
    with readers.locked(reader.name):
        work = readers.work_folder(reader.name)
        part = part_file(work)
        try:
            for number, (_, source) in enumerate(sources, 1):
                before = _size(part)
                try:
                    return source()
                except NoSpaceError:
                    raise
                except LibraryError as error:
                    if len(sources) == 1 or _size(part) not in (0, before):
                        raise
                    following = sources[number][0] if number < len(sources) else ""
                    observer.say(f"{error}; trying {following}" if following else str(error))
            raise LibraryError(f"{reader.name} could not be fetched from any of its {len(sources)} sources")
        finally:
            if not _size(part) and not (work / FILES).is_dir():
                shutil.rmtree(work, ignore_errors=True)  # nothing came with which another command could go on


def import_reader(readers: ModelLibrary, reader: KnownReader, path: Path, observer: Observer) -> Path:
    """Make a reader from its package or folder on this machine, which is not changed. Return its new folder."""
    with readers.locked(reader.name):
        if path.is_file():
            return _from_wheel(readers, reader, path, observer)
        with readers.new_folder(reader.name) as new:
            new.mkdir()
            for name in (*(file.name for file in reader.files), LICENCE_FILE):
                if name != LICENCE_FILE or (path / name).is_file():
                    shutil.copyfile(path / name, new / name)
            return _put_in_place(readers, reader, new)


def import_whisper(readers: ModelLibrary, name: str, path: Path) -> Path:
    """Make a reader from a folder with a Whisper model, which is not changed. Return its new folder."""
    if reason := whisper_lacks(path):
        raise LibraryError(reason)
    if name in known_readers():
        raise LibraryError(f"{name} is another reader: give another name with --name")
    with readers.locked(name):
        if readers.find(name) is not None:
            raise LibraryError(f"there is a reader {name} already: remove it first, or give another name with --name")
        with readers.new_folder(name) as new:
            new.mkdir()
            for file in sorted(each for each in path.iterdir() if each.is_file()):
                shutil.copyfile(file, new / file.name)
            return readers.put(name, new)


def reader_at(path: Path, known: dict[str, KnownReader]) -> KnownReader | None:
    """Return the reader whose package, or whose files in a folder, are at this path. None if there is none."""
    for reader in known.values():
        package = f"{reader.wheel.package.replace('-', '_')}-{reader.wheel.version}-"
        if path.name.startswith(package) and path.suffix == WHEEL and path.is_file():
            return reader
        if path.is_dir() and not lacks(reader, path):
            return reader
    return None


def _from_address(
    readers: ModelLibrary, reader: KnownReader, address: str, observer: Observer, patience: Patience | None
) -> Path:
    """Make the reader from its package at this address: the one that PyPI gives it for ever, or that of a mirror."""
    part = part_file(readers.work_folder(reader.name))
    fetch(address, part, observer, patience)
    _check_wheel(reader.wheel, part, address)
    return _from_part(readers, reader, part, observer)


def _from_pip(readers: ModelLibrary, reader: KnownReader, observer: Observer) -> Path:
    """Make the reader from its package as pip fetches it: it knows the indexes and the proxies of this machine."""
    part = part_file(readers.work_folder(reader.name))
    if not (part.is_file() and sha256_of(part) == reader.wheel.sha256):  # else the disk was full before
        with readers.new_folder(reader.name) as new:
            file = new / reader.wheel.file_name
            _run_pip(reader.wheel, new)
            _check_wheel(reader.wheel, file, f"what pip fetched for {reader.wheel.requirement}")
            part.with_suffix(".json").unlink(missing_ok=True)  # it belongs to another address
            file.replace(part)
    return _from_part(readers, reader, part, observer)


def _run_pip(wheel: ReaderWheel, folder: Path) -> None:
    places = [f"--platform={wheel.platform}", "--only-binary=:all:", "--no-deps", f"--dest={folder}"]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--retries=2"]
    command = [sys.executable, "-m", "pip", "download", *places, *quiet, wheel.requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PIP_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise LibraryError(f"pip took more than {_PIP_PATIENCE_S:.0f} s for {wheel.requirement}") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise LibraryError(f"pip could not fetch {wheel.requirement}: {reason}")


def _from_makers(
    readers: ModelLibrary, reader: KnownReader, address: str, observer: Observer, patience: Patience | None
) -> Path:
    """Make the reader from the single files that its makers publish, which have the same checksums."""
    with fetch_files(readers.work_folder(reader.name), reader.files, address, observer, patience) as kept:
        return _put_in_place(readers, reader, kept)


def _check_wheel(wheel: ReaderWheel, path: Path, source: str) -> None:
    check_file(PublishedFile(wheel.file_name, wheel.size, wheel.sha256), path, source)


def _from_part(readers: ModelLibrary, reader: KnownReader, part: Path, observer: Observer) -> Path:
    """Make the reader from a package that was fetched. It is kept only if the disk was full."""
    try:
        return _from_wheel(readers, reader, part, observer)
    except NoSpaceError:
        raise
    except LibraryError:
        part.unlink(missing_ok=True)
        raise


def _from_wheel(readers: ModelLibrary, reader: KnownReader, wheel: Path, observer: Observer) -> Path:
    with readers.new_folder(reader.name) as new:
        unpack_reader(reader, wheel, new, observer)
        return _put_in_place(readers, reader, new)


def _put_in_place(readers: ModelLibrary, reader: KnownReader, folder: Path) -> Path:
    """Check a complete folder and make it visible."""
    try:
        check_reader(reader, folder)
    except LibraryError as error:
        raise LibraryError(f"this reader cannot be used: {str(error).replace(f'{folder}/', '')}") from error
    return readers.put(reader.name, folder)


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except OSError:
        return 0


# Unpacks the files of a reader from a package, which is a zip file. Only these are written, and of each only the bytes
# that it must have; but a package in which anything is unsafe is refused as a whole.

MOST_UNPACKED_BYTES: Final = 1 << 30
MOST_ENTRIES: Final = 2000
_MOST_LICENCE_BYTES: Final = 1 << 16
_MOST_DIRECTORY_BYTES: Final = 1 << 20
_BLOCK: Final = 1 << 16
# Python decompresses other methods without a limit for what comes out of a few bytes.
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 1
_BROKEN: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)


def unpack_reader(reader: KnownReader, wheel: Path, folder: Path, observer: Observer) -> None:
    """Unpack the files of a reader, and its licence, into this new folder.

    LibraryError if the package is damaged, unsafe or too large, or lacks a file.
    """
    folder.mkdir()
    try:
        with _CarefulReader(wheel.open("rb", buffering=0)) as file, zipfile.ZipFile(file) as archive:
            entries = _entries(archive)
            done = 0
            for each in reader.files:
                entry = entries.get(PurePosixPath(reader.wheel.folder) / each.name)
                if entry is None:
                    raise LibraryError(f"{wheel} has no file {reader.wheel.folder}/{each.name}")
                if entry.file_size != each.size:
                    raise LibraryError(f"{wheel} has {entry.file_size} bytes of {each.name} instead of {each.size}")
                done += _write(archive, entry, folder / each.name)
                observer.progress("unpacked", done, reader.size)
            licence = entries.get(PurePosixPath(reader.wheel.licence_file))
            if licence is not None and licence.file_size <= _MOST_LICENCE_BYTES:
                _write(archive, licence, folder / LICENCE_FILE)
    except _BROKEN as error:
        raise LibraryError(f"{wheel} is damaged, cut off, or not a package ({WHEEL})") from error


class _CarefulReader(io.BufferedReader):
    """Reads a zip file for Python's reader, which would take a directory of any length into memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next `size` bytes, fewer at the end."""
        most = _MOST_DIRECTORY_BYTES
        data = super().read(most + 1 if size is None or size < 0 else min(size, most + 1))
        if len(data) > most:
            raise zipfile.BadZipFile("its directory is too long")
        return data

    def seek(self, place: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position. An entry may claim to begin before the file."""
        try:
            return super().seek(place, whence)
        except OSError as error:
            raise zipfile.BadZipFile("an entry is outside the file") from error


def _entries(archive: zipfile.ZipFile) -> dict[PurePosixPath, zipfile.ZipInfo]:
    """Return the entries by name. LibraryError if one of them is unsafe, or they are too many or too large."""
    found: dict[PurePosixPath, zipfile.ZipInfo] = {}
    size = 0
    for entry in archive.infolist():
        # As it stands in the file: Python's own name ends at a zero byte.
        written = entry.orig_filename
        name = PurePosixPath(written)
        shown = repr(written[:80])
        if name.is_absolute() or ".." in name.parts or any(mark in written for mark in "\\:\0"):
            raise LibraryError(f"the package is unsafe: it has a file named {shown}, outside its folder")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise LibraryError(f"the package is unsafe: {shown} is neither a file nor a folder")
        if entry.compress_type not in _METHODS or entry.flag_bits & _ENCRYPTED:
            raise LibraryError(f"the package is unsafe: {shown} is encrypted, or compressed in an unusual way")
        if name in found:
            raise LibraryError(f"the package is unsafe: it has {shown} twice")
        found[name] = entry
        size += entry.file_size
        if len(found) > MOST_ENTRIES:
            raise LibraryError(f"the package has more than {MOST_ENTRIES} files, which no reader has")
        if size > MOST_UNPACKED_BYTES:
            raise LibraryError(
                f"the package unpacks to more than {MOST_UNPACKED_BYTES / 1e9:.1f} GB, which is the limit"
            )
    return found


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> int:
    """Write an entry to a new file, and return its size, which is what the entry says."""
    written = 0
    with archive.open(entry) as content, path.open("xb") as file:
        while data := content.read(_BLOCK):
            written += len(data)
            if written > entry.file_size:
                raise zipfile.BadZipFile("more comes out than it says")
            file.write(data)
    if written != entry.file_size:
        raise zipfile.BadZipFile("less comes out than it says")
    return written
