"""The catalogue of public models: `catalogue.json` has the facts about each, and where they come from.

Unpublished facts are not in the file, and are None or empty here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from streamer.library import LIBRARY, SHIPPED, LibraryError
from streamer.triton import check_name

CATALOGUE: Final = Path(__file__).with_name("catalogue.json")
ENDINGS: Final = (".tar.bz2", ".tar.gz", ".tgz", ".tar.xz", ".tar")


@dataclass(frozen=True)
class PublishedErrors:
    """The word errors in a corpus, as the makers of the model measured them. For Chinese: the character errors."""

    corpus: str
    percent: float


@dataclass(frozen=True)
class KnownModel:
    """A model that can be fetched. `sha256`: of its archive. `not_yet`: why it cannot be used, if it cannot."""

    name: str
    address: str
    languages: tuple[str, ...] = ()
    family: str = ""
    step_ms: int | None = None
    archive_bytes: int | None = None
    sha256: str = ""
    licence: str = ""
    licence_source: str = ""
    errors: tuple[PublishedErrors, ...] = ()
    errors_source: str = ""
    not_yet: str = ""


def known_models(path: Path | None = None) -> dict[str, KnownModel]:
    """Return the models of the catalogue by name, in its order."""
    content: dict[str, Any] = json.loads((path or CATALOGUE).read_text(encoding="utf-8"))
    models = (_model(entry, content["release"]) for entry in content["models"])
    return {model.name: model for model in models}


def language_code(text: str, path: Path | None = None) -> str:
    """Return the code of a language: from its code with or without a region, as `zh-CN`, or from its English name.

    LibraryError if no model for it is known.
    """
    content: dict[str, Any] = json.loads((path or CATALOGUE).read_text(encoding="utf-8"))
    codes = {code for entry in content["models"] for code in entry["languages"]}
    names = {code: name for code, name in content["languages"].items() if code in codes}
    lowered = text.strip().lower()
    matches = [code for code, name in names.items() if name.lower() == lowered]
    code = matches[0] if matches else lowered.replace("_", "-").partition("-")[0]
    if code not in codes:
        languages = ", ".join(sorted(f"{name} ({code})" for code, name in names.items()))
        raise LibraryError(f"no model for the language {text!r} is known; there are models for {languages}")
    return code


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
    about = {key: value for key, value in entry.items() if key not in ("languages", "errors")}
    about.setdefault("address", f"{release}{entry['name']}{ENDINGS[0]}")
    errors = tuple(PublishedErrors(**each) for each in entry.get("errors", ()))
    return KnownModel(**about, languages=tuple(entry["languages"]), errors=errors)
