"""Makes a model of the library from an address, an archive or a folder: complete and checked, or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streamer.graphs.model_folder import ModelFolderError, holds_graphs, read_model_folder
from streamer.library import FULL, LibraryError, NoSpaceError, Observer
from streamer.library.archive import model_in, unpack
from streamer.library.catalogue import KnownModel
from streamer.library.download import Patience, fetch
from streamer.library.model_library import ModelLibrary, part_file

_BYTES: Final = 1 << 20


def fetch_model(library: ModelLibrary, model: KnownModel, observer: Observer, patience: Patience | None = None) -> Path:
    """Fetch a model, and return its folder. LibraryError if its checksum is wrong, or it cannot be used."""
    with library.locked(model.name):
        work = library.work_folder(model.name)
        part = part_file(work)
        try:
            fetch(model.address, part, observer, patience)
        finally:
            if not (part.is_file() and part.stat().st_size):
                shutil.rmtree(work, ignore_errors=True)  # not one byte came, so nothing can be continued
        checksum = _checksum_of(library, model, part)
        try:
            folder = _from_archive(library, model.name, part, observer)
        except NoSpaceError:
            raise
        except LibraryError:
            shutil.rmtree(work, ignore_errors=True)
            raise
        library.set_pin(model.name, model.address, checksum)
        if not model.sha256:
            observer.say(f"nobody has published a checksum; sha256 {checksum} is expected from now on")
        return folder


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
        with _new_folder(library, name) as new:
            new.mkdir()
            # Without subfolders: they hold recordings for tests.
            for file in sorted(each for each in path.iterdir() if each.is_file()):
                shutil.copyfile(file, new / file.name)
            return _put_in_place(library, name, new)


def _checksum_of(library: ModelLibrary, model: KnownModel, part: Path) -> str:
    """Return the checksum of the archive. If another one is expected, delete the part and raise LibraryError."""
    checksum = _sha256(part)
    pin = library.pin(model.name)
    pinned_checksum = str(pin.get("sha256", "")) if pin.get("address") == model.address else ""
    if checksum in (model.sha256.lower(), pinned_checksum) or not (model.sha256 or pinned_checksum):
        return checksum
    if not model.sha256:
        remedy = f"if it was replaced on purpose, give --checksum {checksum}"
        message = (
            f"{model.address} is not what it was when it was fetched first (its sha256 was {pinned_checksum}): {remedy}"
        )
    else:
        message = f"{model.address} has another checksum than expected: sha256 {checksum}, not {model.sha256.lower()}"
    shutil.rmtree(part.parent)
    raise LibraryError(f"{message}. The archive was deleted")


def _from_archive(library: ModelLibrary, name: str, archive: Path, observer: Observer) -> Path:
    with _new_folder(library, name) as new:
        unpack(archive, new, observer)
        try:
            folder = model_in(new)
        except LibraryError as error:
            raise LibraryError(f"{archive} cannot be used: {error}") from error
        return _put_in_place(library, name, folder)


@contextmanager
def _new_folder(library: ModelLibrary, name: str) -> Iterator[Path]:
    """Provide the path for a new folder in which a model is made. At the end it is deleted, if it is still there."""
    new = library.work_folder(name) / "new"
    shutil.rmtree(new, ignore_errors=True)
    try:
        yield new
    except OSError as error:
        if error.errno in FULL:
            raise NoSpaceError(f"no space is left in {new.parent}: free some and try again") from error
        raise LibraryError(f"{error.filename or new} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _put_in_place(library: ModelLibrary, name: str, folder: Path) -> Path:
    """Check a complete folder and make it visible."""
    _check(folder, Path())
    for path in folder.rglob("*"):
        if path.is_file():
            # Otherwise, a loss of power after the renaming might leave an empty file in a visible model.
            with path.open("rb") as file:
                os.fsync(file.fileno())
    return library.put(name, folder)


def _check(folder: Path, display_path: Path) -> None:
    """Raise LibraryError if the model cannot be used. `display_path`: the folder's name in the message."""
    try:
        read_model_folder(folder)
    except ModelFolderError as error:
        message = (
            str(error)
            if display_path == folder
            else str(error).replace(f"{folder}{os.sep}", "").replace(str(folder), "it")
        )
        raise LibraryError(f"this model cannot be used: {message}") from error


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_BYTES):
            digest.update(data)
    return digest.hexdigest()
