"""How hotwords are divided into tokens."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from streamer.engine.graphs.hotwords.phrase_tokens import PhraseTokens
from streamer.graphs.piece_model import PieceModel
from tests.engine.graphs.byte_characters import STANDS_FOR


def pieces(table: Sequence[str], model: PieceModel | None, phrase: str) -> list[str]:
    """Return the tokens of this phrase."""
    return [table[number] for number in PhraseTokens(table, model).of(phrase)]


def divisions(text: str) -> list[list[str]]:
    """Return all ways to divide a text."""
    cuts = [cut for size in range(len(text)) for cut in itertools.combinations(range(1, len(text)), size)]
    return [[text[begin:end] for begin, end in itertools.pairwise((0, *cut, len(text)))] for cut in cuts]


@pytest.mark.parametrize("seed", range(10))
def test_the_best_division(seed: int) -> None:
    """The pieces have the greatest sum of scores, and without scores there are as few as possible."""
    dice = random.Random(seed)
    table = sorted({"▁", "a", "b", *("▁"[: dice.randint(0, 1)] + "".join(dice.choices("ab", k=3)) for _ in range(9))})
    scores = {piece: dice.uniform(-9, -1) for piece in table}
    ways = [way for way in divisions("▁abbabaab") if all(piece in scores for piece in way)]
    best = max(ways, key=lambda way: sum(map(scores.__getitem__, way)))
    assert pieces(table, PieceModel(scores), "abbabaab") == best
    assert len(pieces(table, None, "abbabaab")) == min(map(len, ways))


def test_pairs() -> None:
    """A model that joins pairs joins the best pair first, even if other divisions had a greater sum."""
    table = ["▁", "a", "b", "c", "ab", "bc", "▁a"]
    scores = {"▁": -9.0, "a": -9.0, "b": -9.0, "c": -9.0, "ab": -2.0, "bc": -1.0, "▁a": -3.0}
    assert pieces(table, PieceModel(scores, pairs=True), "abc") == ["▁a", "bc"]
    assert pieces(table, PieceModel({**scores, "bc": -4.0}, pairs=True), "abc") == ["▁", "ab", "c"]


@pytest.mark.parametrize(
    ("table", "phrase", "found"),
    [
        (["▁NEW", "▁YORK", "'", "S"], "New York\u2019s", ["▁NEW", "▁YORK", "'", "S"]),
        (["▁new", "▁y", "ork"], "New-York!", ["▁new", "▁y", "ork"]),
        (["▁New", "▁york", "▁York"], "New York", ["▁New", "▁York"]),
        (["▁HELLO", "你", "▁你", "好"], "你好hello", ["你", "好", "▁HELLO"]),
        (["▁a", *(f"<0x{byte:02X}>" for byte in range(256))], "aé", ["▁a", "<0xC3>", "<0xA9>"]),
    ],
)
def test_tables(table: list[str], phrase: str, found: list[str]) -> None:
    """Capitals are those of the table, marks without tokens are left out, and scripts without spaces have none."""
    assert pieces(table, None, phrase) == found


def test_pieces_of_bytes() -> None:
    """In a table with pieces of bytes, every character of a script without spaces stands alone."""
    first, second = ("".join(STANDS_FOR[byte] for byte in each.encode()) for each in "你好")
    table = [first + second, first, "▁" + second, STANDS_FOR[255]]
    assert pieces(table, None, "你好") == [first, "▁" + second]


def test_what_has_no_tokens() -> None:
    """The error names the word for which the model has no tokens."""
    with pytest.raises(ValueError, match="hotword 'ab c': the model has no tokens for 'c'"):
        pieces(["▁a", "b"], None, "ab c")
    with pytest.raises(ValueError, match="has nothing that the model has tokens for"):
        pieces(["▁a", "b"], None, "!")
