"""The folder with the models, the default, and what is known about public models."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
from pathlib import Path
from typing import TextIO

import pytest

from streamer.models.families import FAMILIES
from streamer.models.library import (
    CATALOGUE,
    SHIPPED,
    LibraryError,
    ModelLibrary,
    known_models,
    language_code,
    library_folder,
    model_at,
    name_of,
    valid_name,
)


@pytest.fixture
def filled(library: ModelLibrary, small_model: Path) -> ModelLibrary:
    """A library with the models one and two."""
    for name in ("two", "one"):
        shutil.copytree(small_model, library.folder / name)
    return library


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG_DATA_HOME names the folder, unless it is relative."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert library_folder() == tmp_path / "streamer" / "models"
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_DATA_HOME", value)
        assert library_folder() == Path.home() / ".local" / "share" / "streamer" / "models"


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a home, as in a container, there are no models, and that is not an error."""
    monkeypatch.delenv("XDG_DATA_HOME")
    assert ModelLibrary().default_folder() is None
    assert ModelLibrary().models() == {}


def test_a_folder_that_cannot_be_made_for_lack_of_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The sentence says which variable names another folder."""
    (tmp_path / "file").touch()
    monkeypatch.setattr("streamer.models.library.NO_HOME", tmp_path / "file")
    with pytest.raises(LibraryError, match="There is no home folder: name another folder with XDG_DATA_HOME"):
        ModelLibrary(tmp_path / "file" / "models").work_folder("one")


def test_an_empty_library(library: ModelLibrary) -> None:
    """An empty library makes no folder before it is needed."""
    assert (library.models(), library.begun(), library.default, library.default_folder()) == ({}, {}, SHIPPED, None)
    with pytest.raises(LibraryError, match="`streamer models get one` fetches it"):
        library.read("one")
    assert not library.folder.exists()


def test_the_models(filled: ModelLibrary) -> None:
    """Models are visible by name, hidden folders and files are not."""
    (filled.folder / ".hidden").mkdir()
    (filled.folder / "file").touch()
    assert list(filled.models()) == ["one", "two"]
    assert filled.find(".hidden") is None


def test_the_default(filled: ModelLibrary) -> None:
    """A model that can be used becomes the default, and the shipped one again."""
    filled.set_default("one")
    assert (ModelLibrary(filled.folder).default, filled.default_folder()) == ("one", filled.folder / "one")
    (filled.folder / "two" / "tokens.txt").unlink()
    with pytest.raises(LibraryError, match=r"the model two cannot be used: .*tokens\.txt is missing"):
        filled.set_default("two")
    assert filled.default == "one"
    filled.set_default(SHIPPED)
    filled.set_default(SHIPPED)
    assert filled.default_folder() is None


def test_a_default_that_is_lost(filled: ModelLibrary) -> None:
    """If the folder of the default was deleted or damaged, the sentence says how to choose another one."""
    filled.set_default("one")
    (filled.folder / "one" / "model.onnx").write_bytes(b"")
    with pytest.raises(LibraryError, match=r"is empty.*It is the default; `streamer models default shipped` changes"):
        filled.default_folder()
    shutil.rmtree(filled.folder / "one")
    with pytest.raises(LibraryError, match="the model one is not on this machine"):
        filled.default_folder()


def test_removing(filled: ModelLibrary) -> None:
    """A model disappears with what was begun of it; without the default, the shipped model is used."""
    filled.set_default("one")
    (filled.work_folder("one") / "archive.part").write_bytes(b"x")
    assert filled.remove("one")
    assert (list(filled.models()), filled.begun(), filled.default) == (["two"], {}, SHIPPED)
    assert not filled.remove("two")
    (filled.work_folder("three") / "archive.part").write_bytes(b"x")
    assert not filled.remove("three")
    with pytest.raises(LibraryError, match="there is no model three"):
        filled.remove("three")


def test_a_lock_that_is_removed_meanwhile(library: ModelLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that ends removes its lock. One that has just opened this file locks a new one."""
    path, flock = library.folder / ".locks" / "one", fcntl.flock
    removed: list[Path] = []

    def late(file: TextIO, how: int) -> None:
        if not removed:
            path.unlink()
            removed.append(path)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with library.locked("one"):
        assert path.exists()
        with pytest.raises(LibraryError, match="another command is at work on one"), library.locked("one"):
            pass
        assert path.exists()
    assert removed
    assert not library.folder.exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """The sentence names the path."""
    (tmp_path / "file").touch()
    library = ModelLibrary(tmp_path / "file" / "models")
    with pytest.raises(LibraryError, match=rf"{tmp_path}/file/models\S* cannot be changed: Not a directory"):
        library.work_folder("one")
    with (
        pytest.raises(LibraryError, match=r"cannot be changed: Not a directory"),
        library.locked("one"),
    ):
        pass


def test_a_damaged_record(filled: ModelLibrary) -> None:
    """What was remembered is given back; damaged records count as none."""
    filled.set_pin("one", "https://example.org/a", "00")
    assert filled.pin("one") == {"address": "https://example.org/a", "sha256": "00"}
    (filled.folder / ".pins" / "one.json").write_text("[")
    assert filled.pin("one") == {}
    (filled.folder / ".default").write_bytes(b"\xff")
    assert filled.default == SHIPPED


def test_every_entry_is_sound() -> None:
    """Every fact has its source, every model that can be fetched is of a family that can be used."""
    known = known_models()
    assert len(known) >= 6
    for name, model in known.items():
        assert valid_name(name) == name
        file = "" if model.files else rf"{re.escape(name)}\.tar\.bz2"
        assert re.fullmatch(rf"https://\S+/{file}", model.address)
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
