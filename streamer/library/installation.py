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
    """Fetch a model. Returns its folder. LibraryError if it is not what it should be, or cannot be used."""
    with library.locked(model.name):
        work = library.work_folder(model.name)
        part = part_file(work)
        try:
            fetch(model.address, part, observer, patience)
        finally:
            if not (part.is_file() and part.stat().st_size):
                shutil.rmtree(work, ignore_errors=True)  # nothing came, so there is nothing to go on from
        found = _checked(library, model, part)
        try:
            folder = _from_archive(library, model.name, part, observer)
        except NoSpaceError:
            raise
        except LibraryError:
            shutil.rmtree(work, ignore_errors=True)
            raise
        library.set_pin(model.name, model.address, found)
        if not model.sha256:
            observer.say(f"nobody has published a checksum; sha256 {found} is expected from now on")
        return folder


def import_model(library: ModelLibrary, name: str, path: Path, observer: Observer) -> Path:
    """Make a model from an archive or a folder on this machine, which is not changed. Returns its new folder."""
    with library.locked(name):
        if library.find(name) is not None:
            raise LibraryError(f"there is a model {name} already: remove it first, or give another name with --name")
        if not path.is_dir():
            if not path.is_file():
                said = "is neither an archive nor a folder" if path.exists() else "does not exist"
                raise LibraryError(f"{path} {said}")
            return _from_archive(library, name, path, observer)
        if not holds_graphs(path):
            raise LibraryError(f"{path} is not the folder of a public model: it has no file *.onnx")
        _check(path, path)
        with _new_folder(library, name) as new:
            new.mkdir()
            # Without subfolders: they hold recordings for tests.
            for file in sorted(each for each in path.iterdir() if each.is_file()):
                shutil.copyfile(file, new / file.name)
            return _settled(library, name, new)


def _checked(library: ModelLibrary, model: KnownModel, part: Path) -> str:
    """Return the checksum of the archive. LibraryError, and no part is left, if another one is expected."""
    found = _sha256(part)
    pin = library.pin(model.name)
    pinned = str(pin.get("sha256", "")) if pin.get("address") == model.address else ""
    if found in (model.sha256.lower(), pinned) or not (model.sha256 or pinned):
        return found
    if not model.sha256:
        remedy = f"if it was replaced on purpose, give --checksum {found}"
        said = f"{model.address} is not what it was when it was fetched first (its sha256 was {pinned}): {remedy}"
    else:
        said = f"{model.address} has another checksum than expected: sha256 {found}, not {model.sha256.lower()}"
    shutil.rmtree(part.parent)
    raise LibraryError(f"{said}. What came was deleted")


def _from_archive(library: ModelLibrary, name: str, archive: Path, observer: Observer) -> Path:
    with _new_folder(library, name) as new:
        unpack(archive, new, observer)
        try:
            folder = model_in(new)
        except LibraryError as error:
            raise LibraryError(f"{archive} cannot be used: {error}") from error
        return _settled(library, name, folder)


@contextmanager
def _new_folder(library: ModelLibrary, name: str) -> Iterator[Path]:
    """A place for a folder in the making, which is empty again afterwards."""
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


def _settled(library: ModelLibrary, name: str, folder: Path) -> Path:
    """Check a complete folder and make it visible."""
    _check(folder, Path())
    for path in folder.rglob("*"):
        if path.is_file():
            # Otherwise, a loss of power after the renaming might leave an empty file in a visible model.
            with path.open("rb") as file:
                os.fsync(file.fileno())
    return library.put(name, folder)


def _check(folder: Path, shown: Path) -> None:
    """LibraryError if the model cannot be used. `shown`: what the message calls the folder."""
    try:
        read_model_folder(folder)
    except ModelFolderError as error:
        said = str(error) if shown == folder else str(error).replace(f"{folder}{os.sep}", "").replace(str(folder), "it")
        raise LibraryError(f"this model cannot be used: {said}") from error


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_BYTES):
            found.update(data)
    return found.hexdigest()
