"""The table of tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.graphs.token_table import TokenTableError, blank_of, read_tokens


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
