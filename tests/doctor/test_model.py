"""Checks of the model's files, damaged in a copy of the repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.doctor.finding import FINE, WARNING, WRONG
from streamer.doctor.model import NEEDED, model_files, public_model
from streamer.testing.graphs.exact_nemo import make_nemotron_folder
from streamer.testing.graphs.exact_zipformer2 import make_transducer_folder
from streamer.triton import MODEL
from streamer.triton.repository import asr_repository


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository whose files are links to the shipped ones."""
    for name in NEEDED:
        path = tmp_path / MODEL / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(asr_repository() / MODEL / name)
    return tmp_path


def test_the_shipped_model_is_complete() -> None:
    """A complete model gives one line with its name and size."""
    (found,) = model_files()
    assert (found.state, found.remedy) == (FINE, "")
    assert "all complete" in found.said


def cut(content: bytes) -> bytes:
    """Half of the content."""
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    """The content with one changed byte in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


def pointer(content: bytes) -> bytes:
    """The content of a clone without git-lfs."""
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("1/weights.pt", cut, "it is incomplete or damaged"),
        ("1/weights.pt", flipped, "damaged"),
        ("1/weights.pt", pointer, "a pointer of git-lfs"),
        ("1/language.safetensors", cut, "bytes instead of"),
        ("1/lexicon.safetensors", lambda content: content[:100], "its header is incomplete or damaged"),
        ("1/lexicon.safetensors", lambda content: b"x" * 100, "its header is damaged"),
        ("1/model.json", cut, "it is not JSON"),
        ("config.pbtxt", lambda content: b"", "it is empty"),
        ("1/letters.safetensors", None, "No such file"),
    ],
)
def test_a_damaged_file_is_named(copy: Path, name: str, damage: Callable[[bytes], bytes] | None, words: str) -> None:
    """Only damaged files are named, with what is wrong and how to restore them."""
    path = copy / MODEL / name
    content = path.read_bytes()
    path.unlink()
    if damage:
        path.write_bytes(damage(content))
    (found,) = model_files(copy)
    assert found.state == WRONG
    assert str(path) in found.said
    assert words in found.said
    assert "git checkout -- asr_repo" in found.remedy


def test_what_may_be_missing_is_a_warning(copy: Path) -> None:
    """A missing optional file is a warning, because the model works without it."""
    (copy / MODEL / "1" / "calibration.json").unlink()
    assert [found.state for found in model_files(copy)] == [WARNING, FINE]


def test_a_file_that_cannot_be_read(copy: Path) -> None:
    """The message repeats the system's reason."""
    path = copy / MODEL / "1" / "search.json"
    path.unlink()
    path.mkdir()
    (found,) = model_files(copy)
    assert "Is a directory" in found.said


def test_a_public_model(tmp_path: Path) -> None:
    """The folder of a public model is described in one line, and so is what is wrong with it."""
    (found,) = public_model(make_transducer_folder(tmp_path))
    assert found.state == FINE
    assert found.said.startswith("Zipformer-2 transducer, 24 tokens, 0.1 MB, complete; steps of 320 ms, which read 13")
    (tmp_path / "nemotron").mkdir()
    (found,) = public_model(make_nemotron_folder(tmp_path / "nemotron"))
    assert "24 tokens, 5 names of languages, " in found.said
    (tmp_path / "joiner-epoch-1-avg-1.onnx").unlink()
    (found,) = public_model(tmp_path)
    assert (found.state, "it has no joiner" in found.said) == (WRONG, True)
