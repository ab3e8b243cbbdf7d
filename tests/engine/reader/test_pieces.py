"""The pieces of a reader are read from its file, and become text."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.engine.reader.pieces import PiecesError, load_pieces

_BYTES = [b"\xc3", b"\xa9"]


def _file(folder: Path, *pieces: bytes) -> Path:
    path = folder / "tokenizer.bin"
    path.write_bytes(b"".join(_length(len(piece)) + piece for piece in pieces))
    return path


def _length(length: int) -> bytes:
    return bytes([length]) if length < 0x80 else bytes([length % 0x80 + 0x80, length // 0x80])


def test_pieces_become_text_with_spaces_and_without_signs(tmp_path: Path) -> None:
    """A low line stands for a space, and signs for the model are no text."""
    pieces = load_pieces(_file(tmp_path, b"<unk>", b"<s>", b"</s>", "\u2581caf".encode(), *_BYTES, b"<<ST_1>>"))
    texts = pieces.texts([3, 4, 5, 6, 2])
    assert len(pieces) == 7
    assert texts == [" caf", "", "\u00e9", "", ""]


def test_a_character_that_is_not_complete_is_replaced(tmp_path: Path) -> None:
    """Half a character at the end never raises."""
    pieces = load_pieces(_file(tmp_path, b"<unk>", b"<s>", b"</s>", *_BYTES))
    assert pieces.texts([3]) == ["\ufffd"]
    assert pieces.texts([]) == []


def test_a_long_piece_has_two_bytes_of_length(tmp_path: Path) -> None:
    """A length of 128 and more has a second byte."""
    pieces = load_pieces(_file(tmp_path, b"<unk>", b"<s>", b"</s>", b"x" * 300))
    assert pieces.texts([3]) == ["x" * 300]


def test_text_becomes_pieces_again(tmp_path: Path) -> None:
    """Earlier pieces are joined first, each word by itself; what has no piece becomes bytes."""
    low = "\u2581".encode()
    words = [low + b"a", b"bc", low + b"ab", low, b"a", b"b", b"c"]
    pieces = load_pieces(_file(tmp_path, b"<unk>", b"<s>", b"</s>", b"a", *_BYTES, *words))
    assert pieces.tokens("abc a ab") == [6, 7, 6, 8]
    assert "".join(pieces.texts(pieces.tokens("abc \u00e9 cab"))) == " abc \u00e9 cab"
    assert pieces.tokens("") == []
    with pytest.raises(PiecesError, match="no piece for ' x'"):
        pieces.tokens("a x")


@pytest.mark.parametrize("content", [b"", b"\x05ab", b"\x01a\x80"])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """A file that is empty or cut off says so."""
    path = tmp_path / "tokenizer.bin"
    path.write_bytes(content)
    with pytest.raises(PiecesError, match="copy it again"):
        load_pieces(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(PiecesError, match="cannot be read"):
        load_pieces(tmp_path / "tokenizer.bin")
