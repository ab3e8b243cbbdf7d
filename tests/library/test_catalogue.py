"""What is known about public models."""

from __future__ import annotations

import json
import re

import pytest

from streamer.graphs.families.table import FAMILIES
from streamer.library import LibraryError
from streamer.library.catalogue import CATALOGUE, known_models, language_code, model_at, name_of, valid_name


def test_every_entry_is_sound() -> None:
    """Every fact has its source, every model that can be fetched is of a family that can be used."""
    known = known_models()
    assert len(known) >= 6
    for name, model in known.items():
        assert valid_name(name) == name
        assert re.fullmatch(rf"https://\S+/{re.escape(name)}\.tar\.bz2", model.address)
        assert model.languages
        assert all(re.fullmatch("[a-z]{2,3}", language) for language in model.languages)
        assert re.fullmatch("([0-9a-f]{64})?", model.sha256)
        assert bool(model.licence) == bool(model.licence_source)
        assert bool(model.errors) == bool(model.errors_source)
        assert model.not_yet or model.family in [family.title for family in FAMILIES]


@pytest.mark.parametrize("given", ["zh", "ZH", "zh-CN", "zh_Hans", "Chinese", "chinese "])
def test_a_language(given: str) -> None:
    """A language is found by its code, with or without a region, and by its name."""
    assert language_code(given) == "zh"


def test_a_language_without_models() -> None:
    """The sentence has the languages with models: all that the catalogue has."""
    with pytest.raises(LibraryError, match=r"no model for the language 'tlh' is known; there are .*, Russian \(ru\)"):
        language_code("tlh")
    for model in known_models().values():
        assert all(language_code(code) == code for code in model.languages)


def test_a_language_by_its_name() -> None:
    """Every language that a model has can be asked for by its English name."""
    content = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    assert {code for model in known_models().values() for code in model.languages} == set(content["languages"])
    assert language_code("german") == "de"


def test_a_model_that_is_not_in_it() -> None:
    """An archive at any address has the name of its file."""
    model = model_at("https://example.org/models/my%2Dmodel.tar.bz2?key=1", "00")
    assert (model.name, model.sha256, model.licence) == ("my-model", "00", "")
    with pytest.raises(LibraryError, match="does not end like an archive"):
        model_at("https://example.org/model.zip")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("../up", "is not a valid name"),
        (".hidden", "is not a valid name"),
        ("", "is not a valid name"),
        ("shipped", "stands for the model that comes with Streamer"),
        ("https://example.org", "is not a valid name"),
    ],
)
def test_names_that_cannot_be(given: str, words: str) -> None:
    """A name is a part of a path, and must not mean anything else."""
    assert name_of("mine.tar.gz") == name_of("mine") == "mine"
    with pytest.raises(LibraryError, match=words):
        valid_name(given)
