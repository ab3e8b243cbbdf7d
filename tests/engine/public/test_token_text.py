"""From tokens to words."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from streamer.base.text import joined
from streamer.engine.public.token_text import Token, TokenReader, TokenText
from tests.engine.public.byte_characters import STANDS_FOR


def tokens(numbers: Sequence[int]) -> list[Token]:
    """Return these tokens, three frames apart."""
    return [Token(number, 3 * place, 3 * place + 1, math.log(0.5)) for place, number in enumerate(numbers)]


def words(table: Sequence[str], pieces: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the words of these pieces with their frames."""
    found = TokenText(table).words(tokens([table.index(piece) for piece in pieces]))
    assert [word.confidence for word in found] == pytest.approx([0.5] * len(found))
    return [(word.text, word.start, word.end) for word in found]


def test_pieces_of_words() -> None:
    """A mark before a piece begins a word. Its times are those of its pieces."""
    table = ["<blk>", "<unk>", "▁the", "▁qu", "ick", "'", "s", "▁A"]
    assert words(table, ["▁the", "▁qu", "ick", "'", "s", "<unk>", "▁A"]) == [
        ("the", 0, 1),
        ("quick's", 3, 13),
        ("A", 18, 19),
    ]


def test_a_table_of_capitals_alone() -> None:
    """If all letters of a table are capitals, words are written in small letters."""
    assert words(["<blk>", "▁HE", "LLO"], ["▁HE", "LLO"]) == [("hello", 0, 4)]


def test_marks() -> None:
    """A mark belongs to the word before it, also if a space stands between them."""
    table = ["▁Yes", ",", "▁no", "▁.", "。", "是"]
    assert [word for word, *_ in words(table, ["▁Yes", ",", "▁no", "▁."])] == ["Yes,", "no."]
    assert [word for word, *_ in words(table, ["是", "。", "是"])] == ["是。", "是"]


def test_characters_without_spaces() -> None:
    """Each character is a word with its own times, and no space stands between two of them."""
    table = ["<blk>", "你", "好世", "▁hello", "▁是"]
    found = words(table, ["你", "好世", "▁hello", "▁是"])
    assert found == [("你", 0, 1), ("好", 3, 4), ("世", 3, 4), ("hello", 6, 7), ("是", 9, 10)]
    assert joined([word for word, *_ in found]) == "你好世 hello 是"


def test_a_token_for_each_byte() -> None:
    """Bytes make characters; bytes that make no character are left out."""
    table = ["<blk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁a"]
    pieces = ["▁a", *(f"<0x{byte:02X}>" for byte in "é".encode()), "<0xE4>", "▁a"]
    assert words(table, pieces) == [("aé", 0, 7), ("a", 12, 13)]


def test_pieces_of_bytes() -> None:
    """A character that needs two tokens has the times of both."""
    pieces = ["".join(STANDS_FOR[byte] for byte in part) for part in ("好".encode()[:2], "好".encode()[2:])]
    table = ["<blk>", *pieces, "▁" + "".join(STANDS_FOR[byte] for byte in b"ok"), STANDS_FOR[255]]
    assert words(table, [*pieces, table[3]]) == [("好", 0, 4), ("ok", 6, 7)]


def test_a_character_in_parts() -> None:
    """After every token, only whole characters are shown, and all words except for the last one stay."""
    text = "他说“你好”，OK"
    table = [STANDS_FOR[byte] for byte in range(256)]
    reader, spoken = TokenText(table), tokens(list(text.encode()))
    shown = [[word.text for word in reader.words(spoken[:count])] for count in range(len(spoken) + 1)]
    assert shown[-1] == ["他", "说", "“你", "好”，", "OK"]
    assert all("".join(found) in text for found in shown)
    assert all(found[:-1] == shown[-1][: max(0, len(found) - 1)] for found in shown)


def test_capitals_among_pieces_of_bytes() -> None:
    """The pieces that stand for letters decide whether a table has small letters."""
    pieces = ["".join(STANDS_FOR[byte] for byte in part.encode()) for part in ("OK", "好", "é", "ok")]
    assert [word for word, *_ in words([*pieces[:3], STANDS_FOR[255]], pieces[:3])] == ["ok", "好", "é"]
    assert [word for word, *_ in words([*pieces, STANDS_FOR[255]], pieces[:1])] == ["OK"]


ESCAPE, BELL = "\x1b]52;c;QQ==", "\x07"


@pytest.mark.parametrize(
    "piece",
    [f"▁a{ESCAPE}{BELL}", "▁a\x9b31m", "▁a\x7f\x00", "▁a\u202eb", "▁a\u2066b\u2069", "▁a\U000e0041"],
    ids=["command", "sequence", "control", "order", "direction", "unseen"],
)
def test_what_is_no_text(piece: str) -> None:
    """What a terminal obeys, what changes the order of text and what nobody sees reaches no transcript."""
    [(word, start, end)] = words(["<blk>", piece], [piece])
    assert word.isprintable()
    assert word[0] == "a"
    assert (start, end) == (0, 1)


def test_no_text_in_bytes() -> None:
    """The same of characters that come as bytes, in one token or in several; those that scripts need are kept."""
    table = ["<blk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁a"]
    text = f"{ESCAPE}{BELL}\x9b\u202e\N{ZERO WIDTH NON-JOINER}b"
    found = words(table, ["▁a", *(f"<0x{byte:02X}>" for byte in text.encode())])
    assert [word for word, *_ in found] == ["a]52;c;QQ==\N{ZERO WIDTH NON-JOINER}b"]
    table = [STANDS_FOR[byte] for byte in range(256)]
    assert [word.text for word in TokenText(table).words(tokens(list(text.encode())))] == [found[0][0][1:]]


@pytest.mark.parametrize(("score", "confidence"), [(1e30, 1.0), (math.inf, 1.0), (math.nan, 0.0), (-math.inf, 0.0)])
def test_scores_that_are_no_probabilities(score: float, confidence: float) -> None:
    """A confidence is from 0 to 1, whatever a model gives."""
    assert [word.confidence for word in TokenText(["a"]).words([Token(0, 0, 1, score)])] == [confidence]


def test_tokens_that_come_one_after_another() -> None:
    """However many come at a time, and although the end of the last one changes, the words are those of the whole."""
    table = [
        "<blk>",
        "▁a",
        "b",
        "'",
        "▁.",
        "好世",
        "▁",
        " c d",
        "“",
        "\u202e",
        *(f"<0x{byte:02X}>" for byte in range(256)),
    ]
    text, dice = TokenText(table), random.Random(1)
    euro = [table.index(f"<0x{byte:02X}>") for byte in "€".encode()]
    for _ in range(300):
        numbers: list[int] = []
        while len(numbers) < 30:
            numbers += euro[: dice.choice((1, 2, 3, 3))] if dice.random() < 0.2 else [dice.randrange(10)]
        reader, given = TokenReader(text), list[Token]()
        for place, number in enumerate(numbers):
            if given and dice.random() < 0.5:
                given[-1] = replace(given[-1], end=given[-1].end + 1)
            given.append(Token(number, 3 * place, 3 * place + 1, -dice.random()))
            if dice.random() < 0.6:
                assert reader.words(given) == text.words(given)
                given[-1] = replace(given[-1], end=given[-1].end + 1)
                assert reader.words(given) == text.words(given)


def test_words_that_are_over_stay_the_same_objects() -> None:
    """Further tokens make no new words of those before."""
    reader, given = TokenReader(TokenText(["▁a", "b"])), tokens([0, 1, 0, 1])
    first = reader.words(given)
    assert all(one is other for one, other in zip(reader.words(given + tokens([0, 1])), first[:1], strict=False))
