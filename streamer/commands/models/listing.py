"""Makes the output of `streamer models list`: the models that are here and those of the catalogue, as data or text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from streamer.graphs.layout import FRAME_MS
from streamer.library import SHIPPED, LibraryError
from streamer.library.catalogue import KnownModel
from streamer.library.model_library import ModelLibrary


def content(library: ModelLibrary, catalogue: Mapping[str, KnownModel], language: str | None = None) -> dict[str, Any]:
    """Return all facts about each model, for programs. `language`: only models for this code."""
    here = library.models()
    models = [_of_catalogue(model) | _of_folder(library, model.name) for model in catalogue.values()]
    models += [{"name": name} | _of_folder(library, name) for name in here if name not in catalogue]
    if language:
        models = [model for model in models if language in model.get("languages", ())]
    for name, size in library.begun().items():
        models += [{"name": name}] if name not in [model["name"] for model in models] and not language else []
        for model in models:
            if model["name"] == name:
                model["part_bytes"] = size
    for model in models:
        model["here"] = model["name"] in here
    default = library.default
    return {
        "default": default,
        "default_here": default == SHIPPED or default in here,
        "folder": str(library.folder),
        "models": models,
    }


def text(listing: Mapping[str, Any]) -> str:
    """Return the listing as text for people."""
    default, models = listing["default"], listing["models"]
    here = [model for model in models if model["here"]]
    away = [model for model in models if not model["here"] and "not_yet" not in model]
    later = [model for model in models if not model["here"] and "not_yet" in model]
    lines = [f"on this machine, in {listing['folder']} (* is the default):"]
    lines += [f"{'*' if default == SHIPPED else ' '} {SHIPPED}  en, comes with Streamer"]
    for model in here:
        lines += [f"{'*' if default == model['name'] else ' '} {model['name']}", *_indent(_here(model))]
    if not listing["default_here"]:
        lines += [f"* {default}", "      is not here any more"]
    if away:
        lines += ["", "to be fetched with `streamer models get NAME`:"]
    for model in away:
        lines += [f"  {model['name']}", *_indent(_away(model))]
    if later:
        lines += ["", "known, but not usable yet:"]
        lines += [f"  {model['name']}  {', '.join(model['languages'])}; {model['not_yet']}" for model in later]
    return "\n".join(lines)


def _of_catalogue(model: KnownModel) -> dict[str, Any]:
    """Return the facts of the catalogue, without those that nobody has published."""
    return {key: value for key, value in asdict(model).items() if value not in (None, "", ())}


def _of_folder(library: ModelLibrary, name: str) -> dict[str, Any]:
    """Return the facts of the files; empty if the model is not here."""
    folder = library.find(name)
    if folder is None:
        return {}
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    about: dict[str, Any] = {"path": str(folder), "size_bytes": size}
    try:
        model = library.read(name)
    except LibraryError as error:
        return about | {"wrong": str(error)}
    return about | {
        "family": model.family.title,
        "step_ms": model.layout.step * FRAME_MS,
        "state_bytes": model.layout.state_bytes,
    }


def _here(model: Mapping[str, Any]) -> Iterator[str]:
    if "wrong" in model:
        yield model["wrong"]
        return
    yield f"{_kind(model)}, {model['size_bytes'] / 1e6:.0f} MB; {model['state_bytes'] / 1e6:.1f} MB for each stream"
    yield from _published(model)


def _away(model: Mapping[str, Any]) -> Iterator[str]:
    parts = [_kind(model)]
    if "archive_bytes" in model:
        parts.append(f"{model['archive_bytes'] / 1e6:.0f} MB to fetch")
    if "part_bytes" in model:
        parts.append(f"{model['part_bytes'] / 1e6:.0f} MB are here already")
    if parts != [""]:
        yield ", ".join(filter(None, parts))
    yield from _published(model)


def _published(model: Mapping[str, Any]) -> Iterator[str]:
    if "licence" in model:
        yield f"licence: {model['licence']} ({model['licence_source']})"
    elif "address" in model:
        yield "licence: not known here"
    if "errors" in model:
        rates = ", ".join(f"{each['percent']:g} % in {each['corpus']}" for each in model["errors"])
        yield f"word errors, as published: {rates}"
        yield f"  ({model['errors_source']})"


def _kind(model: Mapping[str, Any]) -> str:
    steps = f"steps of {model['step_ms']} ms" if "step_ms" in model else ""
    return ", ".join(filter(None, [*model.get("languages", ()), model.get("family", ""), steps]))


def _indent(lines: Iterator[str]) -> list[str]:
    return [f"      {line}" for line in lines]
