"""The bonuses of tokens for hotwords, compared with the definition."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.engine.graphs.hotwords.automaton import ROOT, HotwordAutomaton

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
