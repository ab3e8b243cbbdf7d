"""Checks whether the files of the model, of public models and of readers are complete. Needs no torch."""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from streamer.base.package import install_command
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.checks import packages
from streamer.commands.checks.finding import FINE, WARNING, WRONG, Finding
from streamer.models.layout import FRAME_SHIFT
from streamer.models.library import SHIPPED, LibraryError, ModelLibrary, known_models
from streamer.models.model_folder import ModelFolderError, read_any_folder
from streamer.models.readers import (
    KnownReader,
    check_reader,
    installed_folder,
    known_readers,
    lacks,
    reader_languages,
    reader_library,
    readers_here,
    whisper_models,
)
from streamer.models.speaker_networks import (
    LICENCE,
    REQUIREMENT,
    find_speaker_networks,
    read_speaker_networks,
)
from streamer.models.whisper_folder import holds_whisper, whisper_lacks

NEEDED: Final = (
    "config.pbtxt",
    "1/model.py",
    "1/model.json",
    "1/search.json",
    "1/calibration.json",
    "1/reader.json",
    "1/weights.safetensors",
    "1/activity.safetensors",
    "1/lexicon.safetensors",
    "1/letters.safetensors",
    "1/language.safetensors",
    "1/rescoring.safetensors",
)
OPTIONAL: Final = {
    "1/calibration.json": "times and confidences are not calibrated",
    "1/reader.json": "no reader is used",
    "1/activity.safetensors": "silence is not detected",
    "1/rescoring.safetensors": "words are not rescored by the neural language model",
}
REMEDY: Final = "in a clone: git checkout -- asr_repo (or git lfs pull); else install Streamer's wheel again"

_POINTER: Final = b"version https://git-lfs"
_LONGEST_HEADER: Final = 1 << 26
_CHECKSUM: Final = "sha256"


class Damaged(Exception):
    """A file is damaged. The message says how."""


def model_files(repository: Path | None = None) -> Iterator[Finding]:
    """Yield one line if everything is well, else one for each missing or damaged file."""
    try:
        folder = (repository or asr_repository()) / MODEL
    except TritonError as error:
        yield Finding("model files", WRONG, str(error))
        return
    size, complete = 0, True
    for name in NEEDED:
        path = folder / name
        if name in OPTIONAL and not path.exists():
            yield Finding("model files", WARNING, f"{path} is missing: {OPTIONAL[name]}", REMEDY)
            continue
        try:
            size += path.stat().st_size
            _check(path)
        except (Damaged, OSError, ValueError) as error:
            complete = False
            reason = error.strerror if isinstance(error, OSError) else error
            yield Finding("model files", WRONG, f"{path}: {reason}", REMEDY)
    if complete:
        name = json.loads((folder / "1" / "model.json").read_text(encoding="utf-8")).get("name", "without a name")
        yield Finding("model files", FINE, f"{name}, {len(NEEDED)} files, {size / 1e6:.0f} MB, all complete; {folder}")


def public_model(folder: Path) -> Iterator[Finding]:
    """Describe the public model in this folder, or report what is wrong with it."""
    if holds_whisper(folder):
        yield _whisper("model files", folder, WRONG, folder.resolve().name, "copy all of its files again")
        return
    try:
        model = read_any_folder(folder)
    except ModelFolderError as error:
        yield Finding("model files", WRONG, str(error))
        return
    size = sum(graph.size for graph in model.graphs) / 1e6
    layout = model.layout
    step, ahead = (samples * 10 // FRAME_SHIFT for samples in (layout.step_samples, layout.ahead_samples))
    languages = "" if layout.languages is None else f"{len(layout.languages.numbers)} names of languages, "
    text = f"{model.family.title}, {len(model.tokens)} tokens, {languages}{size:.1f} MB, complete"
    yield Finding("model files", FINE, f"{text}; steps of {step} ms, which read {ahead} ms ahead; {folder.resolve()}")
    for cost in model.costs:
        yield Finding("model cost", WARNING, cost, "choose a model with caches, or measure it: streamer plan --model")


def _check(path: Path) -> None:
    with path.open("rb") as file:
        begin = file.read(len(_POINTER))
    if not begin:
        raise Damaged("it is empty")
    if begin == _POINTER:
        raise Damaged("it is a pointer of git-lfs, not the file itself")
    if checking := _KINDS.get(path.suffix):
        checking(path)


def _tensors(path: Path) -> None:
    """Check a safetensors file. Its header says how long it is, and may have a checksum."""
    with path.open("rb") as file:
        length = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))[0]
        if length > _LONGEST_HEADER:
            raise Damaged("its header is damaged")
        try:
            header = json.loads(file.read(length))
            end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Damaged("its header is incomplete or damaged") from None
    expected_size, size = 8 + length + end, path.stat().st_size
    if size != expected_size:
        raise Damaged(f"it has {size} bytes instead of {expected_size}")
    stored = header.pop("__metadata__", {}).get(_CHECKSUM)
    if stored not in (None, _checksum(path, 8 + length, header)):
        raise Damaged("it is damaged: its checksum is that of other weights")


def _checksum(path: Path, begin: int, header: dict[str, Any]) -> str:
    """Return the checksum of weights, as `streamer.engine.acoustics.bundle_files` computes it."""
    content, digest = memoryview(path.read_bytes())[begin:], hashlib.sha256()
    for name in sorted(header):
        first, end = header[name]["data_offsets"]
        digest.update(f"{name} {header[name]['shape']}\n".encode())
        digest.update(content[first:end])
    return digest.hexdigest()


def _object(path: Path) -> None:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Damaged(f"it is not JSON: {error}") from None


_KINDS: Final[dict[str, Callable[[Path], None]]] = {".safetensors": _tensors, ".json": _object}


# Checks whether each public model of this machine, and the default, can be used. Needs no torch.

_SUBJECT: Final = "public models"
_GIGABYTE: Final = 1e9


def public_models(library: ModelLibrary | None = None, room: int | None = None) -> Iterator[Finding]:
    """Report each model that cannot be used or has no room, then the others and the default.

    `room`: how many bytes models may hold; by default, what this machine has for them.
    """
    library = library or ModelLibrary()
    here, default = library.models(), library.default
    yield from _unusable(library, default)
    begun = [name for name in library.begun() if name not in here]
    if begun:
        names = ", ".join(begun)
        yield Finding(_SUBJECT, WARNING, f"{names} was not fetched to its end", f"streamer models get {begun[0]}")
    try:
        library.default_folder()
    except LibraryError as error:
        reason = str(error).partition(". It is the default;")[0]
        remedy = f"streamer models default {SHIPPED}, or: streamer models get {default}"
        # The light client cannot load any model, so for it this is not a problem.
        state = WARNING if packages.is_light() else WRONG
        yield Finding(_SUBJECT, state, f"the default does not work: {reason}", remedy)
        return
    usual = "the shipped model is the default" if default == SHIPPED else f"{default} is the default"
    summary = f"{len(here)} in {library.folder}: {', '.join(here)}" if here else "none is here"
    if sys.platform == "linux" and not packages.is_light():  # elsewhere no model is served
        usable = {name: here[name] for name in here if _is_usable(library, name)}
        if usable:
            yield from _without_room({default: asr_repository() / MODEL, **usable}, default, room)
    yield Finding(_SUBJECT, FINE, f"{summary}; {usual}")


def _unusable(library: ModelLibrary, default: str) -> Iterator[Finding]:
    """Report each model that cannot be used, except the default, which has a finding of its own."""
    for name in library.models():
        try:
            library.read(name)
        except LibraryError as error:
            if name != default:
                what = "get" if name in known_models() else "remove"
                yield Finding(_SUBJECT, WARNING, str(error), f"streamer models {what} {name}")


def _is_usable(library: ModelLibrary, name: str) -> bool:
    try:
        library.read(name)
    except LibraryError:
        return False
    return True


def _without_room(folders: dict[str, Path], default: str, room: int | None) -> Iterator[Finding]:
    """Report each model that has no room beside the default one, and whether they do not fit together."""
    # Imported here, because it is slow, and the light client has only a part of it.
    from streamer.commands.capacity.estimates import expected_memory, memory_for_models

    room = memory_for_models(None) if room is None else room
    sizes = {name: expected_memory(folder, None, None) for name, folder in folders.items()}
    may = f"models may hold {room / _GIGABYTE:.1f} GB here"
    needed = {name: size + (sizes[default] if name != default else 0) for name, size in sizes.items()}
    for name, size in needed.items():
        if size > room:
            beside = "" if name == default else f" and {default}, which is always loaded,"
            message = f"{name}{beside} need{'' if beside else 's'} about {size / _GIGABYTE:.1f} GB of memory, and {may}"
            yield Finding(_SUBJECT, WARNING, message, "streamer serve --slots 16 needs less, or more memory")
    if max(needed.values()) <= room < sum(sizes.values()):
        message = f"all models together need about {sum(sizes.values()) / _GIGABYTE:.1f} GB of memory, and {may}"
        yield Finding(_SUBJECT, WARNING, message, "streamer serve --model library --load on-demand")


# Checks which readers are on this machine. Nothing needs one: without it, finals have the words of the second pass.

_READERS: Final = "readers"
_SPEAKERS: Final = "speakers"
_SOME_LANGUAGES: Final = 6


def readers() -> Iterator[Finding]:
    """Report each reader that is damaged or was not fetched to its end, then those that can be used."""
    if packages.is_light():
        return
    here, usable = readers_here(), []
    yield from _incomplete_readers()
    for name, folder in here.items():
        reader = known_readers()[name]
        try:
            check_reader(reader, folder)
        except LibraryError as error:
            yield Finding(_READERS, WARNING, f"{name} cannot be used: {error}", _reader_remedy(reader, folder))
        else:
            usable.append(f"{name}, {reader.size / 1e6:.0f} MB, complete; {folder}")
    for name, folder in whisper_models().items():
        found = _whisper(_READERS, folder, WARNING, name, f"streamer models remove {name}")
        if found.state == FINE:
            usable.append(found.said)
        else:
            yield found
    if usable:
        yield Finding(_READERS, FINE, "; ".join(usable))
    elif not here and not whisper_models():
        smallest = list(known_readers().values())[-1]
        get = f"streamer models get {smallest.name}"
        remedy = f"{get}, or: {install_command('reader')}" if packages.PARTS["reader"] and not packages.CLONE else get
        yield Finding(_READERS, WARNING, "none is here: ended segments are read by the second pass alone", remedy)


def _whisper(subject: str, folder: Path, severity: str, name: str, remedy: str) -> Finding:
    """Describe a Whisper model, or report what it lacks, which is this severe. `remedy`: if a file is missing."""
    if reason := whisper_lacks(folder):
        return Finding(subject, severity, f"{name} cannot be used: {reason}", remedy)
    if packages.missing_packages("whisper"):
        return Finding(subject, severity, f"{name} needs the package ctranslate2", install_command("whisper"))
    codes = reader_languages(folder)
    first = f"{', '.join(codes[:_SOME_LANGUAGES])}{' …' * (len(codes) > _SOME_LANGUAGES)}"
    reads = "English alone" if len(codes) == 1 else f"{len(codes)} languages ({first})"
    return Finding(subject, FINE, f"{name}, Whisper for {reads}; {folder}")


def speakers() -> Iterator[Finding]:
    """Report whether speakers can be told apart. Nothing else needs the networks for it."""
    if packages.is_light():
        return
    library = find_speaker_networks()
    if library is None:
        what = f"pip install '{REQUIREMENT}'"
        yield Finding(_SPEAKERS, FINE, f"cannot be told apart: there are no networks for it here, {what} brings them")
        return
    try:
        read_speaker_networks(library)
    except LibraryError as error:
        remedy = f"pip install --force-reinstall --no-deps {REQUIREMENT}"
        yield Finding(_SPEAKERS, WARNING, f"cannot be told apart: {error}", remedy)
    else:
        yield Finding(_SPEAKERS, FINE, f"can be told apart, by the networks of pyannote ({LICENCE}); {library}")


def _incomplete_readers() -> Iterator[Finding]:
    """Report what was begun, what lacks a file, and packages of a version that has no weights."""
    library, here = reader_library(), readers_here()
    fetched, begun = library.models(), library.begun()
    for name, reader in known_readers().items():
        installed = installed_folder(reader)
        if name in fetched and (reason := lacks(reader, fetched[name])):
            yield Finding(_READERS, WARNING, f"{name} is not complete: {reason}", f"streamer models get {name}")
        elif name in begun:
            yield Finding(_READERS, WARNING, f"{name} was not fetched to its end", f"streamer models get {name}")
        elif name not in here and installed is not None:
            package = reader.wheel.package
            said = f"{package} {packages.installed_version(package)} has no {name}: {lacks(reader, installed)}"
            yield Finding(_READERS, WARNING, said, _reader_remedy(reader, installed))


def _reader_remedy(reader: KnownReader, folder: Path) -> str:
    if folder == installed_folder(reader):
        return f"pip install --force-reinstall --no-deps {reader.wheel.requirement}"
    return f"streamer models get {reader.name}"
