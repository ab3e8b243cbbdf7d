"""The table of tokens, and the pieces by which texts are divided."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from streamer.models.tokens import PieceModel, PieceModelError, TokenTableError, blank_of, read_pieces, read_tokens


def test_lines_in_any_order(tmp_path: Path) -> None:
    """Tokens have their numbers, a number alone is the space, and further tokens are left out."""
    path = tmp_path / "tokens.txt"
    path.write_text("▁a 1\n<eps> 0\n 2\n\n#0 3\n", encoding="utf-8")
    assert read_tokens(path, 3) == ("<eps>", "▁a", " ")
    assert blank_of(read_tokens(path, 3)) == 0
    assert blank_of(("a", "b")) is None


def test_text_of_another_kind(tmp_path: Path) -> None:
    """A file that is not UTF-8 text is refused."""
    path = tmp_path / "tokens.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TokenTableError, match="not UTF-8 text"):
        read_tokens(path, 1)


def message(*fields: tuple[int, bytes | int]) -> bytes:
    """A protobuf message with these fields; all are shorter than 128."""
    return b"".join(
        bytes([number << 3, value]) if isinstance(value, int) else bytes([number << 3 | 2, len(value)]) + value
        for number, value in fields
    )


def piece(text: str, score: float, kind: int = 1) -> bytes:
    """A piece as SentencePiece writes it."""
    return message((1, text.encode())) + bytes([2 << 3 | 5]) + struct.pack("<f", score) + message((3, kind))


def test_no_file(tmp_path: Path) -> None:
    """A folder need not have pieces."""
    assert read_pieces(tmp_path) is None


@pytest.mark.parametrize(("kind", "pairs"), [(1, False), (2, True)])
def test_a_model(kind: int, pairs: bool, tmp_path: Path) -> None:
    """The pieces of a text and their scores, without the special ones, and how they are joined."""
    content = message(
        (1, piece("<unk>", 0, 2)), (1, piece("▁a", -1.5)), (1, piece("b", -2.5, 4)), (2, message((3, kind)))
    )
    (tmp_path / "bpe.model").write_bytes(content)
    assert read_pieces(tmp_path) == PieceModel({"▁a": -1.5, "b": -2.5}, pairs)


def test_a_table(tmp_path: Path) -> None:
    """The same as text. The model is preferred if there are both."""
    (tmp_path / "bpe.vocab").write_text("<blk>\t0\n▁a\t-1.5\n", encoding="utf-8")
    assert read_pieces(tmp_path) == PieceModel({"<blk>": 0.0, "▁a": -1.5})
    (tmp_path / "bpe.model").write_bytes(message((1, piece("b", -2.5))))
    assert read_pieces(tmp_path) == PieceModel({"b": -2.5})


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("bpe.model", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("bpe.model", message((1, piece("a", -1.0)))[:-3], "cut off"),
        ("bpe.model", b"", "cut off"),
        ("bpe.vocab", b"a\tb\n", "does not have the pieces"),
        ("bpe.vocab", b"a\tnan\n", "does not have the pieces"),
        ("bpe.vocab", b"\xff\xfe", "does not have the pieces"),
    ],
)
def test_what_cannot_be_used(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    """A sentence says what is wrong with the file."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PieceModelError, match=said):
        read_pieces(tmp_path)
