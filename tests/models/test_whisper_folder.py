"""A folder with a Whisper model is told from others, and says what it lacks and which languages it has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamer.models.whisper_folder import (
    UnknownWhisper,
    holds_whisper,
    language_code,
    languages_in,
    whisper_lacks,
    whisper_vocabulary,
)

HEADER = b"\x06\x00\x00\x00\x0c\x00WhisperSpec\x00\x03\x00\x00\x00"
WEIGHTS = b"\x01\x00\x00\x00\x02\x00w\x00\x01\x03\x00\x00\x00\x00\x0c\x00\x00\x00" + bytes(12)
NO_OTHER_NAMES = bytes(4)


def _folder(
    path: Path, name: str = "vocabulary.txt", tokens: tuple[str, ...] = ("a", "<|endoftext|>", "<|de|>")
) -> Path:
    path.mkdir(exist_ok=True)
    (path / "model.bin").write_bytes(HEADER + WEIGHTS + NO_OTHER_NAMES)
    content = json.dumps(tokens) if name.endswith(".json") else "\n".join(tokens) + "\n"
    (path / name).write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["vocabulary.txt", "vocabulary.json"])
def test_a_whole_folder_lacks_nothing(tmp_path: Path, name: str) -> None:
    """Both forms of the vocabulary are read."""
    folder = _folder(tmp_path, name)
    assert holds_whisper(folder)
    assert whisper_lacks(folder) == ""
    assert whisper_vocabulary(folder) == ["a", "<|endoftext|>", "<|de|>"]


@pytest.mark.parametrize("content", [None, b"", HEADER[:8], b"\x06\x00\x00\x00\x0c\x00Transformer\x00"])
def test_other_folders_hold_none(tmp_path: Path, content: bytes | None) -> None:
    """Translators have the same format, and a folder may have nothing."""
    if content is not None:
        (tmp_path / "model.bin").write_bytes(content)
    assert not holds_whisper(tmp_path)


@pytest.mark.parametrize("left", [len(HEADER), len(HEADER) + 9, len(HEADER) + len(WEIGHTS) - 1])
def test_weights_that_are_cut_off(tmp_path: Path, left: int) -> None:
    """A file that ends before its last weight is not complete."""
    folder = _folder(tmp_path)
    model = folder / "model.bin"
    model.write_bytes(model.read_bytes()[:left])
    assert whisper_lacks(folder) == f"{model} is not complete: copy or download it again"


def test_weights_in_another_form(tmp_path: Path) -> None:
    """Files of other versions are left to what computes them."""
    folder = _folder(tmp_path)
    (folder / "model.bin").write_bytes(b"\x09" + HEADER[1:])
    assert whisper_lacks(folder) == ""


@pytest.mark.parametrize("content", ["", "a\nb\n", '{"a":1}', "\udcff"])
def test_a_vocabulary_that_is_damaged(tmp_path: Path, content: str) -> None:
    """The message names the file."""
    folder = _folder(tmp_path)
    (folder / "vocabulary.txt").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert "vocabulary.txt" in whisper_lacks(folder)
    with pytest.raises(UnknownWhisper):
        whisper_vocabulary(folder)


def test_languages() -> None:
    """A model for English has the signs of all languages too, but fewer tokens."""
    tokens = ["<|endoftext|>", "<|en|>", "<|yue|>", "<|translate|>", "<|0.00|>"]
    assert languages_in(tokens) == ("en",)
    assert languages_in([*tokens, *map(str, range(51_860))]) == ("en", "yue")


@pytest.mark.parametrize(
    ("language", "code"), [("de-DE", "de"), ("NB", "no"), ("zh_TW", "zh"), ("fr", None), ("", None)]
)
def test_codes(language: str, code: str | None) -> None:
    """A language may be written in several ways."""
    assert language_code(language, ("de", "no", "zh")) == code
