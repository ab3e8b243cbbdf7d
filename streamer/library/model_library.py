"""The folder with the public models of this machine, and which of them is the default.

A model that is visible is complete: it is made in a hidden folder beside the others, and then renamed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TextIO

from streamer.graphs.model_folder import ModelFolderError, PublicModel, read_model_folder
from streamer.library import SHIPPED, LibraryError
from streamer.machine.temporary_folder import NO_HOME, user_folder

try:
    import fcntl
except ImportError:  # Windows has no such locks; there, nobody keeps two commands apart
    fcntl = None  # type: ignore[assignment]

_DEFAULT: Final = ".default"
_WORK: Final = ".work"
_PINS: Final = ".pins"
_LOCKS: Final = ".locks"
_TRIES: Final = 10


def library_folder() -> Path:
    """Where the models of this user are kept."""
    return user_folder("XDG_DATA_HOME", ".local/share") / "streamer" / "models"


class ModelLibrary:
    """The models in one folder."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder`: if it is not that of this user."""
        self.folder = folder or library_folder()

    def models(self) -> dict[str, Path]:
        """The folders of the models by name."""
        try:
            found = sorted(path for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        except OSError:
            return {}
        return {path.name: path for path in found}

    def find(self, name: str) -> Path | None:
        """The folder of this model; None if it is not here."""
        return self.models().get(name)

    def read(self, name: str) -> PublicModel:
        """Check a model completely. LibraryError if it is not here, or cannot be used."""
        folder = self.find(name)
        if folder is None:
            raise LibraryError(f"the model {name} is not on this machine: `streamer models get {name}` fetches it")
        try:
            return read_model_folder(folder)
        except ModelFolderError as error:
            raise LibraryError(f"the model {name} cannot be used: {error}") from error

    @property
    def default(self) -> str:
        """The name of the model for commands that name none; SHIPPED if nobody chose one."""
        try:
            return (self.folder / _DEFAULT).read_text(encoding="utf-8").strip() or SHIPPED
        except (OSError, ValueError):
            return SHIPPED

    def set_default(self, name: str) -> None:
        """Choose the default: a model that is here and can be used, or SHIPPED."""
        if name == SHIPPED:
            with _said(self.folder), suppress(FileNotFoundError):
                (self.folder / _DEFAULT).unlink()
            return
        self.read(name)
        _write(self.folder / _DEFAULT, f"{name}\n")

    def default_folder(self) -> Path | None:
        """The folder of the default; None for the shipped model. LibraryError if it cannot be used."""
        name = self.default
        if name == SHIPPED:
            return None
        try:
            self.read(name)
        except LibraryError as error:
            raise LibraryError(
                f"{error}. It is the default; `streamer models default {SHIPPED}` changes that"
            ) from None
        return self.find(name)

    def remove(self, name: str) -> bool:
        """Remove a model, or what an interrupted command left of it. Returns whether it was the default."""
        with self.locked(name):
            folder, begun = self.find(name), (self.folder / _WORK / name).is_dir()
            if folder is None and not begun:
                raise LibraryError(f"there is no model {name} in {self.folder}")
            work = self.work_folder(name)
            was_default = self.default == name
            if was_default:
                self.set_default(SHIPPED)
            with _said(self.folder):
                if folder is not None:
                    # Renamed first, so that nobody sees half of it.
                    folder.rename(work / "removed")
                shutil.rmtree(work)
            return was_default

    def begun(self) -> dict[str, int]:
        """The models of which a part was fetched, and how many bytes of each."""
        parts = sorted((self.folder / _WORK).glob(f"*/{part_file(Path()).name}"))
        return {path.parent.name: path.stat().st_size for path in parts}

    def work_folder(self, name: str) -> Path:
        """The hidden folder in which this model is made."""
        folder = self.folder / _WORK / name
        with _said(self.folder):
            _make(folder)
        return folder

    def put(self, name: str, folder: Path) -> Path:
        """Make this complete folder visible as a model, in the place of one that is there."""
        final = self.folder / name
        with _said(self.folder):
            if final.exists():
                former = self.work_folder(name) / "former"
                final.rename(former)
            folder.rename(final)
            shutil.rmtree(self.work_folder(name))
        return final

    def pin(self, name: str) -> dict[str, Any]:
        """What was fetched under this name before: `address`, `sha256`. Empty if nothing was."""
        try:
            found = json.loads((self.folder / _PINS / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def set_pin(self, name: str, address: str, sha256: str) -> None:
        """Remember what was fetched under this name."""
        _write(self.folder / _PINS / f"{name}.json", json.dumps({"address": address, "sha256": sha256}) + "\n")

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Keep other commands away from this model. LibraryError if one is at work on it.

        At the end, the lock is removed, and so are the folders that were made for nothing.
        """
        path, work = self.folder / _LOCKS / name, self.folder / _WORK / name
        missing = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
        lock = self._lock(path)
        try:
            yield
        finally:
            _remove_empty(work)
            # While it is locked: otherwise it could be the lock of another command by now.
            with suppress(OSError):
                path.unlink()
            lock.close()
            for folder in (work.parent, path.parent, *missing):
                _remove_empty(folder)

    def _lock(self, path: Path) -> TextIO:
        """Make and lock this file. LibraryError if another command has locked it."""
        for _ in range(_TRIES):
            with _said(self.folder):
                _make(path.parent)
                try:
                    lock = path.open("w")
                except FileNotFoundError:  # another command has just removed the folder, as nothing was in it
                    continue
            if fcntl is None:
                return lock
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                break
            if _is_at(lock, path):
                return lock
            lock.close()  # the command that had it has just removed it
        raise LibraryError(f"another command is at work on {path.name}: wait until it has ended")


def part_file(work: Path) -> Path:
    """Where the archive of a model is while it is being fetched."""
    return work / "archive.part"


def _make(folder: Path) -> None:
    """Make a folder. Another command that ends may remove the one above it meanwhile, if nothing is in that."""
    for _ in range(_TRIES - 1):
        with suppress(FileNotFoundError):
            folder.mkdir(parents=True, exist_ok=True)
            return
    folder.mkdir(parents=True, exist_ok=True)


def _remove_empty(folder: Path) -> None:
    """Remove a folder if nothing is in it."""
    with suppress(OSError):
        folder.rmdir()


def _is_at(file: TextIO, path: Path) -> bool:
    """Whether this open file is the one that the path names."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _write(path: Path, text: str) -> None:
    """Write a small file in one step."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with _said(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)


@contextmanager
def _said(folder: Path) -> Iterator[None]:
    """Say which folder cannot be changed."""
    try:
        yield
    except OSError as error:
        remedy = (
            ". There is no home folder: name another folder with XDG_DATA_HOME" if NO_HOME in folder.parents else ""
        )
        raise LibraryError(f"{error.filename or folder} cannot be changed: {error.strerror}{remedy}") from error
