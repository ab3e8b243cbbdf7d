"""The bonuses of tokens for hotwords, compared with the definition."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.engine.public.hotwords import ROOT, HotwordAutomaton, PhraseTokens
from streamer.models.tokens import PieceModel
from tests.engine.public.byte_characters import STANDS_FOR

TOKENS = st.integers(0, 2)
HOTWORDS = st.lists(st.tuples(st.lists(TOKENS, min_size=1, max_size=4), st.sampled_from([0.5, 1.0, 2.0])), max_size=4)


def totals(automaton: HotwordAutomaton, tokens: Sequence[int]) -> list[float]:
    """Return the sum of the bonuses after each of these tokens."""
    state, total, found = ROOT, 0.0, []
    for token in tokens:
        earned, state = automaton.step(state, token)
        total += earned
        found.append(total)
    return found


def defined(hotwords: Sequence[tuple[list[int], float]], tokens: Sequence[int]) -> list[float]:
    """Return the same by definition: the bonus of the longest end that begins a hotword, and of complete hotwords."""
    bonuses: dict[tuple[int, ...], float] = {}
    for hotword, bonus in hotwords:
        for size in range(1, len(hotword) + 1):
            key = tuple(hotword[:size])
            bonuses[key] = max(bonuses.get(key, 0.0), bonus)

    def worth(part: tuple[int, ...]) -> float:
        return sum(bonuses[part[:size]] for size in range(1, len(part) + 1))

    kept, since, found = 0.0, 0, []
    for end in range(1, len(tokens) + 1):
        ends = [tuple(tokens[begin:end]) for begin in range(since, end)]
        begun = next((part for part in ends if part in bonuses), ())
        complete = [part for part in ends if len(part) <= len(begun) and list(part) in [each for each, _ in hotwords]]
        if complete:
            kept, since = kept + worth(complete[0]), end
            found.append(kept)
        else:
            found.append(kept + worth(begun))
    return found


@given(HOTWORDS, st.lists(TOKENS, max_size=12))
def test_any_hotwords_and_tokens(hotwords: list[tuple[list[int], float]], tokens: list[int]) -> None:
    """After every token, the sum of the bonuses is that of the definition."""
    assert totals(HotwordAutomaton(hotwords), tokens) == pytest.approx(defined(hotwords, tokens))


def test_a_match_that_breaks_off() -> None:
    """A match gives its bonuses back, except for a shorter beginning that still fits; a whole hotword keeps them."""
    automaton = HotwordAutomaton([([1, 2, 3], 1.5), ([2, 4, 5], 1.0)])
    assert totals(automaton, [1, 2, 4, 9]) == [1.5, 3.0, 2.0, 0.0]
    assert totals(automaton, [1, 2, 3, 1, 9]) == [1.5, 3.0, 4.5, 6.0, 4.5]


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
