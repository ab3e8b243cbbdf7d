"""The model repository: where it is, and copies of it made of links with other settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamer import shipped
from streamer.testing.graphs.exact_zipformer2 import make_ctc_folder
from streamer.triton import MODEL, TritonError
from streamer.triton.model_config import CONFIG, model_config
from streamer.triton.repository import (
    asr_repository,
    link_model,
    link_repository,
    make_resizable,
    models_alone,
    models_in,
    parts_of,
    steps_in,
)

TEXT = """
# count and max_candidate_sequences
instance_group [ { count: 1 } ]
sequence_batching { oldest { max_candidate_sequences: 512 } }
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Provide two models and another file."""
    folder = tmp_path / "models"
    for name in ("left", "right"):
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "1" / "model.py").write_text(f"# {name}")
        (folder / name / CONFIG).write_text(f'name: "{name}"' + TEXT)
    (folder / "README").touch()
    return folder


def numbers(folder: Path) -> tuple[str, int, int]:
    """Return name, instances and slots of a model."""
    config = model_config(folder)
    return config.name, config.instance_group[0].count, config.sequence_batching.oldest.max_candidate_sequences


def test_a_copy_has_other_numbers(repository: Path, tmp_path: Path) -> None:
    """Only the configurations of the given models are new files, and the original does not change."""
    copy = tmp_path / "copy"
    link_repository(repository, copy, ["left"], instances=3, slots=7)
    assert numbers(copy / "left") == ("left", 3, 7)
    assert (copy / "left" / "1").readlink() == repository / "left" / "1"
    assert (copy / "right").readlink() == repository / "right"
    assert (copy / "README").is_symlink()
    assert numbers(repository / "left") == ("left", 1, 512)
    assert (repository / "left" / CONFIG).read_text() == 'name: "left"' + TEXT


@pytest.mark.parametrize("settings", [{}, {"instances": 1}, {"instances": 1, "slots": 512}])
def test_what_does_not_differ_is_a_link(repository: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    """A model that does not differ is a link, so nothing is written again."""
    link_model(repository / "left", tmp_path / "left", **settings)
    assert (tmp_path / "left").readlink() == repository / "left"


def test_a_copy_of_another_name(repository: Path, tmp_path: Path) -> None:
    """The model is named like its folder, as Triton requires."""
    link_model(repository / "left", tmp_path / "other", slots=9)
    assert numbers(tmp_path / "other") == ("other", 1, 9)
    assert (tmp_path / "other" / "1" / "model.py").read_text() == "# left"


def test_a_copy_takes_the_place_of_the_former_one(repository: Path, tmp_path: Path) -> None:
    """A former link or folder is replaced; the target of a link stays."""
    copy = tmp_path / "left"
    for instances in (1, 2, 3, 1):
        link_model(repository / "left", copy, instances=instances)
        assert numbers(copy) == ("left", instances, 512)
    assert (repository / "left" / "1" / "model.py").exists()


def test_a_wrong_setting_leaves_the_former_copy(repository: Path, tmp_path: Path) -> None:
    """The former copy is removed only when the new settings are known to be valid."""
    copy = tmp_path / "left"
    link_model(repository / "left", copy, instances=2)
    with pytest.raises(TritonError, match="instances must be 1 or more, not 0"):
        link_model(repository / "left", copy, instances=0)
    assert numbers(copy) == ("left", 2, 512)


@pytest.mark.parametrize("slots", [None, 7])
def test_a_folder_in_which_nothing_changes(repository: Path, tmp_path: Path, slots: int | None) -> None:
    """Nothing can be compiled into a copy whose number of instances may change; the original is not touched."""
    (repository / "left" / "1" / "__pycache__").mkdir()
    copy = tmp_path / "left"
    link_model(repository / "left", copy, slots=slots)
    for instances in (1, 3):
        make_resizable(copy, instances)
        assert len(model_config(copy).instance_group) == instances
    assert (copy / "1" / "__pycache__").is_file()
    assert (copy / "1" / "model.py").readlink() == repository / "left" / "1" / "model.py"
    assert (repository / "left" / CONFIG).read_text() == 'name: "left"' + TEXT
    assert sorted(path.name for path in (repository / "left" / "1").iterdir()) == ["__pycache__", "model.py"]


def test_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    """A model is a folder with a configuration."""
    (tmp_path / "1").mkdir()
    with pytest.raises(TritonError, match="is not a model repository"):
        models_in(tmp_path)


def test_the_repository_of_the_wheel_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repository is in the package or beside a checkout; otherwise the message says what to do."""
    monkeypatch.setattr(shipped, "PACKAGE", tmp_path / "streamer")
    with pytest.raises(TritonError, match="install Streamer again"):
        asr_repository()
    (tmp_path / "asr_repo").mkdir()
    assert asr_repository() == tmp_path / "asr_repo"
    (tmp_path / "streamer" / "asr_repo").mkdir(parents=True)
    assert asr_repository() == tmp_path / "streamer" / "asr_repo"


def test_a_public_model(tmp_path: Path) -> None:
    """The folder of a public model becomes a model with the shipped configuration, and is not changed."""
    folder = tmp_path / "public"
    folder.mkdir()
    make_ctc_folder(folder)
    before = sorted(folder.iterdir())
    for _ in range(2):
        link_model(folder, tmp_path / "copy", slots=5)
        assert numbers(tmp_path / "copy") == ("copy", 1, 5)
        bundle = model_config(tmp_path / "copy").parameters["bundle"].string_value
        assert (tmp_path / "copy" / bundle).resolve() == folder.resolve()
        assert (tmp_path / "copy" / "1" / "model.py").is_file()
        (tmp_path / "copy" / "1" / "model.py").unlink()
    (tmp_path / "link").symlink_to(asr_repository() / "streaming_asr")
    link_model(folder, tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert sorted(folder.iterdir()) == before


def test_steps_get_the_numbers_of_their_ensemble(tmp_path: Path) -> None:
    """Instances and slots apply to the steps of an ensemble; it has none itself, nor a step without a state."""
    link_repository(asr_repository(), tmp_path / "copy", ["asr_heads"], instances=2, slots=7)
    encoder, router = (model_config(tmp_path / "copy" / name) for name in ("speech_encoder", "feature_router"))
    assert (encoder.instance_group[0].count, encoder.sequence_batching.oldest.max_candidate_sequences) == (2, 7)
    assert router.instance_group[0].count == 2
    assert not router.HasField("sequence_batching")
    for unchanged in ("asr_heads", "streaming_asr"):
        assert (tmp_path / "copy" / unchanged).is_symlink()


def test_steps_and_ensembles_are_not_models_alone() -> None:
    """A model that is loaded with an ensemble is not among the models that are loaded alone."""
    assert steps_in(asr_repository()) == {"speech_encoder", "feature_router", "activity_head", "transcript_head"}
    assert models_alone(asr_repository()) == ("streaming_asr",)


def test_the_parts_of_an_ensemble() -> None:
    """The parts of an ensemble are its steps and the folder with their weights; another model has none."""
    repository = asr_repository()
    names = [str(path.relative_to(repository)) for path in parts_of(repository / "asr_heads", repository)]
    assert sorted(names) == sorted([*steps_in(repository), "streaming_asr/1"])
    assert parts_of(repository / MODEL, repository) == parts_of(repository / "nothing", repository) == []
