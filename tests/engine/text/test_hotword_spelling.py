"""Hotwords with figures are said in words, and written as they were given."""

from __future__ import annotations

import pytest

from streamer.engine.text.hotword_spelling import NO_SPELLINGS, Spellings, has_figures, spoken_forms
from tests.engine.text.plain_form import settled, written

SPELLINGS = Spellings.of((form, name) for name in ("K8s", "i18n", "911") for form in spoken_forms(name))


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("K8s", ["k eight s", "k eights"]),
        ("i18n", ["i eighteen n", "i one eight n"]),
        ("GPT-4", ["g p t four"]),
        ("MP3", ["m p three"]),
        ("H2O", ["h two o"]),
        ("web3", ["web three", "w e b three"]),
        ("USB3", ["u s b three", "usb three"]),
        ("COVID-19", ["covid nineteen", "covid one nine"]),
        ("Windows 11", ["windows eleven", "windows one one"]),
        ("R2D2", ["r two d two"]),
        ("5G", ["five g"]),
        ("911", ["nine eleven", "nine one one", "nine hundred eleven"]),
        ("365", ["three sixty five", "three six five", "three hundred sixty five"]),
        ("2024", ["twenty twenty four", "two zero two four"]),
        ("2000", ["two thousand", "two zero zero zero"]),
        ("1905", ["nineteen oh five", "one nine zero five"]),
        ("007", ["zero zero seven", "oh oh seven"]),
        ("B\N{ARABIC-INDIC DIGIT TWO}B", ["b two b"]),
    ],
)
def test_how_it_is_said(text: str, forms: list[str]) -> None:
    """The spoken forms have letters and digits by name, and words and numbers if these are likely."""
    assert has_figures(text)
    assert spoken_forms(text) == forms


@pytest.mark.parametrize(
    ("said", "plain", "by_rules"),
    [
        ("we run k eight s here", "we run K8s here", "We run K8s here"),
        ("k eights is for i eighteen n", "K8s is for i18n", "K8s is for i18n"),
        ("call nine one one at ten", "call 911 at ten", "Call 911 at 10"),
        ("k eight people", "k eight people", "K eight people"),
        ("eighteen", "eighteen", "18"),
    ],
)
def test_it_is_written_as_it_was_given(said: str, plain: str, by_rules: str) -> None:
    """A hotword is written as given, with and without the written form, and at the beginning of a sentence."""
    for rules, wanted in ((False, plain), (True, by_rules)):
        tokens = written(said.split(), spellings=SPELLINGS, rules=rules)
        assert " ".join(token.text for token in tokens) == wanted
        assert [token.first for token in tokens[1:]] == [token.end for token in tokens[:-1]]


def test_nothing_that_was_stable_changes() -> None:
    """Words that may become one word with the next one are not settled."""
    words = ["we", "run", "k", "eight", "s", "here"]
    counts = [settled(words, stable, spellings=SPELLINGS, rules=False) for stable in range(len(words) + 1)]
    assert counts == [0, 1, 2, 2, 2, 3, 4]
    assert settled(words, 3, rules=False) == 3
    assert not NO_SPELLINGS
