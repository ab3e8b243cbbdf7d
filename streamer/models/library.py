"""The public models of this machine and those of the catalogue: how they are fetched, checked, kept and chosen."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, TextIO
from urllib.parse import unquote, urlsplit

from streamer.base.machine import NO_HOME, user_folder
from streamer.base.names import check_name
from streamer.models.model_folder import AnyModel, ModelFolderError, read_any_folder

SHIPPED: Final = "shipped"  # in place of a name: the model that comes with Streamer
LIBRARY: Final = "library"  # in place of a name: all models of this machine
FULL: Final = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


class LibraryError(Exception):
    """A model cannot be fetched, kept or used. The message is a sentence for the user, without its full stop."""


class NoSpaceError(LibraryError):
    """The disk is full. The fetched bytes are kept, because the same command may succeed later."""


class Observer(Protocol):
    """Receives the progress of fetching and unpacking, and messages about it."""

    def progress(self, what: str, done: int, whole: int | None) -> None:
        """Show that `done` of `whole` bytes are done; `whole` is None if it is not known."""

    def say(self, sentence: str) -> None:
        """Print a sentence for the user."""


# The folder with the public models of this machine, and which of them is the default.

try:
    import fcntl
except ImportError:  # Windows has no such locks; there, nobody keeps two commands apart
    fcntl = None  # type: ignore[assignment]

_DEFAULT: Final = ".default"
_WORK: Final = ".work"
_PINS: Final = ".pins"
_LOCKS: Final = ".locks"
_TRIES: Final = 10
_READ_BYTES: Final = 1 << 20


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

    def read(self, name: str) -> AnyModel:
        """Check a model completely. LibraryError if it is not here, or cannot be used."""
        folder = self.find(name)
        if folder is None:
            raise LibraryError(f"the model {name} is not on this machine: `streamer models get {name}` fetches it")
        try:
            return read_any_folder(folder)
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

    @contextmanager
    def new_folder(self, name: str) -> Iterator[Path]:
        """Provide the path for a new folder in which a model is made. At the end it is deleted, if it is there."""
        new = self.work_folder(name) / "new"
        shutil.rmtree(new, ignore_errors=True)
        try:
            yield new
        except OSError as error:
            if error.errno in FULL:
                raise NoSpaceError(f"no space is left in {new.parent}: free some and try again") from error
            raise LibraryError(f"{error.filename or new} cannot be written: {error.strerror}") from error
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def put(self, name: str, folder: Path) -> Path:
        """Make this complete folder visible as a model, in the place of one that is there."""
        final = self.folder / name
        for path in folder.rglob("*"):
            if path.is_file():
                # Otherwise, a loss of power after the renaming might leave an empty file in a visible model.
                with path.open("rb") as file:
                    os.fsync(file.fileno())
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


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return digest.hexdigest()


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


# The catalogue of public models: `catalogue.json` has the facts about each, and where they come from.

CATALOGUE: Final = Path(__file__).with_name("catalogue.json")
ENDINGS: Final = (".tar.bz2", ".tar.gz", ".tgz", ".tar.xz", ".tar")


@dataclass(frozen=True)
class PublishedErrors:
    """The word errors in a corpus, as the makers of the model measured them. For Chinese: the character errors."""

    corpus: str
    percent: float


@dataclass(frozen=True)
class PublishedFile:
    """A single file that makers publish. It is used only with this size, and with this SHA-256 if one is known."""

    name: str
    size: int
    sha256: str = ""


@dataclass(frozen=True)
class KnownModel:
    """A model that can be fetched. `sha256`: of its archive. `not_yet`: why it cannot be used, if it cannot.

    `files`: if there is no archive, the files in the folder at the address. `times_computed`: how often it computes
    each moment of audio, if it has no caches.
    """

    name: str
    address: str
    languages: tuple[str, ...] = ()
    family: str = ""
    step_ms: int | None = None
    times_computed: float | None = None
    archive_bytes: int | None = None
    million_weights: float | None = None
    weights_source: str = ""
    sha256: str = ""
    licence: str = ""
    licence_source: str = ""
    errors: tuple[PublishedErrors, ...] = ()
    errors_source: str = ""
    not_yet: str = ""
    files: tuple[PublishedFile, ...] = ()

    @property
    def archive_name(self) -> str:
        """The name of its file, under which mirrors have it."""
        return unquote(urlsplit(self.address).path).rpartition("/")[2]


def known_models(path: Path | None = None) -> dict[str, KnownModel]:
    """Return the models of the catalogue by name, in its order."""
    content: dict[str, Any] = json.loads((path or CATALOGUE).read_text(encoding="utf-8"))
    models = (_model(entry, content["release"]) for entry in content["models"])
    return {model.name: model for model in models}


def language_code(text: str, path: Path | None = None, *, others: Iterable[str] = ()) -> str:
    """Return the code of a language: from its code with or without a region, as `zh-CN`, or from its English name.

    `others`: codes for which this machine has a model that is not in the catalogue.

    LibraryError if no model for it is known.
    """
    content: dict[str, Any] = json.loads((path or CATALOGUE).read_text(encoding="utf-8"))
    codes = {code for entry in (*content["models"], *content.get("readers", ())) for code in entry["languages"]}
    codes |= set(others)
    names = {code: name for code, name in content["languages"].items() if code in codes}
    lowered = text.strip().lower()
    matches = [code for code, name in names.items() if name.lower() == lowered]
    code = matches[0] if matches else lowered.replace("_", "-").partition("-")[0]
    if code not in codes:
        languages = ", ".join(sorted(f"{name} ({code})" for code, name in names.items()))
        raise LibraryError(f"no model for the language {text!r} is known; there are models for {languages}")
    return code


def language_name(code: str, path: Path | None = None) -> str:
    """Return the English name of a language; the code itself if the catalogue has none."""
    content: dict[str, Any] = json.loads((path or CATALOGUE).read_text(encoding="utf-8"))
    return str(content["languages"].get(code, code))


def model_at(address: str, sha256: str = "") -> KnownModel:
    """Return the model at an address that is not in the catalogue. It is named after its archive."""
    file = unquote(urlsplit(address).path).rpartition("/")[2]
    if not any(file.endswith(ending) for ending in ENDINGS):
        raise LibraryError(f"{address} does not end like an archive ({', '.join(ENDINGS)})")
    return replace(KnownModel(name_of(file), address), sha256=sha256)


def name_of(file: str) -> str:
    """Return the name for a model from the name of its archive or folder. LibraryError if it is not a valid name."""
    stem = next((file.removesuffix(ending) for ending in ENDINGS if file.endswith(ending)), file)
    return valid_name(stem)


def valid_name(text: str) -> str:
    """Return the name if it is valid for a model. LibraryError if not."""
    reserved = {SHIPPED: "the model that comes with Streamer", LIBRARY: "all models of this machine"}
    if text in reserved:
        raise LibraryError(f"{text} stands for {reserved[text]}: choose another name with --name")
    try:
        return check_name(text)
    except ValueError as error:
        raise LibraryError(str(error)) from None


def _model(entry: dict[str, Any], release: str) -> KnownModel:
    about = {key: value for key, value in entry.items() if key not in ("languages", "errors", "files")}
    about.setdefault("address", f"{release}{entry['name']}{ENDINGS[0]}")
    errors = tuple(PublishedErrors(**each) for each in entry.get("errors", ()))
    files = tuple(PublishedFile(**each) for each in entry.get("files", ()))
    if files:
        about["archive_bytes"] = sum(file.size for file in files)
    return KnownModel(**about, languages=tuple(entry["languages"]), errors=errors, files=files)
