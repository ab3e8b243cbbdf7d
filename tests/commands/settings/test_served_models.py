"""The models of a service, as a flag, a variable or a file names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.settings.kinds import WrongValueError
from streamer.commands.settings.served_models import (
    ModelList,
    ModelsError,
    ServedModel,
    by_public_name,
    first_folder_error,
    locate,
)
from streamer.models.library import ModelLibrary
from workshop.graphs.exact_icefall import make_ctc_folder

MODELS = ModelList()


def test_names_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text with a slash, or that names a folder, is a folder; a public name may come before either."""
    (tmp_path / "local").mkdir()
    monkeypatch.chdir(tmp_path)
    assert MODELS.of_text("one, fast=two") == (ServedModel("one"), ServedModel("two", "fast"))
    assert MODELS.of_text("./away/three") == (ServedModel("three", "", Path("away/three")),)
    assert MODELS.of_text("x=local") == (ServedModel("local", "x", Path("local")),)
    [model] = MODELS.of_text("./模型/my model (1)")
    assert model == ServedModel("my_model__1_", "", Path("模型/my model (1)"))
    assert [model.model for model in MODELS.of_text("./模型,./.hidden")] == ["model", "hidden"]


def test_in_a_file(tmp_path: Path) -> None:
    """A single model needs no array; a folder is relative to the file, and is written as an absolute path."""
    assert MODELS.of_toml("one", tmp_path) == (ServedModel("one"),)
    [model] = MODELS.of_toml(["fast=models/two"], tmp_path)
    assert model == ServedModel("two", "fast", tmp_path / "models" / "two")
    assert MODELS.to_toml((model,)) == f'["fast={tmp_path}/models/two"]'


@pytest.mark.parametrize("wrong", ["", "a b", "=one", "a b=one", "one,,two", "fast=", "/"])
def test_what_is_no_model(wrong: str) -> None:
    """A value that is not a model is refused, and the message says what is valid."""
    with pytest.raises(WrongValueError, match="the name or folder of a model"):
        MODELS.of_text(wrong)


def test_public_names() -> None:
    """The first model is the default unless another one is; others are called by their names in Triton."""
    found = by_public_name(MODELS.of_text("one,two,fast=three"))
    assert {name: model.model for name, model in found.items()} == {"default": "one", "two": "two", "fast": "three"}
    found = by_public_name(MODELS.of_text("one,default=two"))
    assert {name: model.model for name, model in found.items()} == {"one": "one", "default": "two"}


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ("a=one,a=two", "two models with the public name a"),
        ("one,fast=one", "one twice: a Triton model can have only one public name"),
        ("a=one,b=two", "must have a model with the public name default"),
    ],
)
def test_what_does_not_go_together(models: str, words: str) -> None:
    """Each name stands for one model, each model has one name, and there is a default."""
    with pytest.raises(ModelsError, match=words):
        by_public_name(MODELS.of_text(models))


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """A folder without a model is reported before anything starts."""
    assert "it has no config.pbtxt" in first_folder_error(MODELS.of_text(f"one,{tmp_path}"))
    (tmp_path / "config.pbtxt").touch()
    assert first_folder_error(MODELS.of_text(f"one,{tmp_path}")) == ""


def test_a_folder_with_a_public_model(tmp_path: Path) -> None:
    """The folder of a public model is a model, and what is wrong with it is said before anything starts."""
    folder = make_ctc_folder(tmp_path)
    assert first_folder_error(MODELS.of_text(str(folder))) == ""
    (folder / "tokens.txt").unlink()
    assert "names a public model that cannot be used" in first_folder_error(MODELS.of_text(str(folder)))


def test_models_of_this_machine(tmp_path: Path) -> None:
    """A name means a model of the repository, or else one of this machine; `shipped` is the one of Streamer."""
    library, repository = ModelLibrary(tmp_path / "models"), tmp_path / "repository"
    mine = library.folder / "mine"
    mine.mkdir(parents=True)
    make_ctc_folder(mine)
    (repository / "one").mkdir(parents=True)
    given = MODELS.of_text("one,spoken=mine,usual=shipped")
    found = locate(given, repository, library, chosen=True)
    assert found == (
        ServedModel("one"),
        ServedModel("mine", "spoken", mine),
        ServedModel(MODEL, "usual", asr_repository() / MODEL),
    )
    assert locate((ServedModel("one"),), repository, library, chosen=False) == (ServedModel("one"),)
    library.set_default("mine")
    assert locate((ServedModel("one"),), repository, library, chosen=False) == (ServedModel("mine", folder=mine),)


def test_all_models_of_this_machine(tmp_path: Path) -> None:
    """`library` stands for all of them, the default of this machine first; those that are named keep their names."""
    library, repository = ModelLibrary(tmp_path / "models"), tmp_path / "repository"
    for name in ("alpha", "beta", "gamma"):
        (library.folder / name).mkdir(parents=True)
        make_ctc_folder(library.folder / name)

    def served(given: str) -> dict[str, str]:
        found = locate(MODELS.of_text(given), repository, library, chosen=True)
        assert all(model.folder is not None for model in found)
        return {name: model.model for name, model in by_public_name(found).items()}

    assert served("library") == {"default": MODEL, "alpha": "alpha", "beta": "beta", "gamma": "gamma"}
    library.set_default("beta")
    assert served("library") == {"default": "beta", "alpha": "alpha", "gamma": "gamma"}
    assert served("gamma,b=beta,library") == {"default": "gamma", "b": "beta", "alpha": "alpha"}
    with pytest.raises(ModelsError, match="gives one name to all models of this machine: write library without all="):
        served("all=library")
    (repository / "library").mkdir(parents=True)
    found = locate(MODELS.of_text("library"), repository, library, chosen=True)
    assert found == (ServedModel("library"),)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mina", r"names mina, which is not in \S+: there is no model mina on this machine; did you mean mine\?"),
        ("sherpa-onnx-streaming-zipformer-en-2023-06-26", r"yet: `streamer models get sherpa-\S+06-26` fetches it"),
        ("zebra", "`streamer models` lists those that can be fetched"),
    ],
)
def test_a_model_that_is_nowhere(tmp_path: Path, name: str, words: str) -> None:
    """The sentence has the nearest names, or the command that fetches it."""
    (tmp_path / "mine").mkdir()
    with pytest.raises(ModelsError, match=words):
        locate(MODELS.of_text(name), tmp_path / "repository", ModelLibrary(tmp_path), chosen=True)


def test_a_default_that_cannot_be_served(tmp_path: Path) -> None:
    """If nobody names a model, and the default of this machine is lost, the service does not start with another one."""
    (tmp_path / ".default").write_text("mine\n")
    with pytest.raises(ModelsError, match="must be given: the model mine is not on this machine"):
        locate((ServedModel("one"),), tmp_path, ModelLibrary(tmp_path), chosen=False)
