"""The model repository: its place, and settings edited into a model's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer import shipped
from streamer.triton import TritonError
from streamer.triton.repository import asr_repository, configured, models_in

CONFIG = """
# instance_group [ { count: 9 } ] would be too many
parameters { key: "max_candidate_sequences: 8" value { string_value: "instance_group [ { count: 7 } ]" } }
instance_group [
  {
    # count: 6
    kind: KIND_CPU count : 1
  }
]
sequence_batching { oldest { max_candidate_sequences:512 # max_candidate_sequences: 4
} }
model_warmup [ { count: 3 } ]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.pbtxt"
    path.write_text(CONFIG)
    return path


def test_only_the_two_numbers_change(config: Path) -> None:
    """Comments, strings and other counts stay as they are."""
    expected = CONFIG.replace("count : 1", "count : 12").replace("sequences:512", "sequences:3")
    assert configured(config, instances=12, slots=3) == expected
    assert configured(config, instances=None, slots=None) == CONFIG


@pytest.mark.parametrize(
    "text",
    [
        "",
        "instance_group [ { kind: KIND_CPU } ]",
        "instance_group [ { count: 1 }, { count: 2 } ]",
        "# instance_group [ { count: 1 } ]",
    ],
)
def test_a_field_must_be_there_once(config: Path, text: str) -> None:
    """No count, or several of them, is an error that names the field."""
    config.write_text(text)
    with pytest.raises(TritonError, match=r"instances cannot be set: .* must have `instance_group"):
        configured(config, instances=2, slots=None)


def test_numbers_below_one_are_refused(config: Path) -> None:
    """There is always an instance and a slot."""
    with pytest.raises(TritonError, match="slots must be 1 or more, not 0"):
        configured(config, instances=None, slots=0)


def test_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    """A model is a folder with a configuration."""
    (tmp_path / "1").mkdir()
    with pytest.raises(TritonError, match="is not a model repository"):
        models_in(tmp_path)


def test_the_repository_of_the_wheel_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a wheel it lies in the package, in a checkout beside it; elsewhere the message says what to do."""
    monkeypatch.setattr(shipped, "PACKAGE", tmp_path / "streamer")
    with pytest.raises(TritonError, match="install Streamer again"):
        asr_repository()
    (tmp_path / "asr_repo").mkdir()
    assert asr_repository() == tmp_path / "asr_repo"
    (tmp_path / "streamer" / "asr_repo").mkdir(parents=True)
    assert asr_repository() == tmp_path / "streamer" / "asr_repo"
