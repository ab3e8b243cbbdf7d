"""The first witness's words are a text only if the others heard nearly the same, and if somebody may have said them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workshop.labelling.agreement import Heard, Limits, Verdict, difference, judge, possible, repeats

TEXT = "there are ten words in this line that we say"
ENGLISH_WORDS = frozenset(f"{TEXT} and no more of it".split())


def heard(text: str = TEXT, language: str = "") -> Heard:
    """Return what a witness heard."""
    return Heard(tuple(text.split()), language)


def verdict(
    *witnesses: Heard, speech_s: float = 4.0, different: float = 0.1, agreeing: int = 1, avoided: str = ""
) -> Verdict:
    """Judge a piece."""
    limits = Limits(different, agreeing=agreeing)
    return judge(witnesses, speech_s, limits, ENGLISH_WORDS.__contains__, {avoided})


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        (TEXT, True),
        ("there are ten words in this line that he say", True),
        ("there are ten words in this line that he said", False),
        ("there are ten words in this line", False),
        ("", False),
    ],
)
def test_another_witness_may_differ_in_a_tenth_of_the_words(other: str, kept: bool) -> None:
    """Words that are missing count as well as others."""
    assert verdict(heard(), heard(other)) is (Verdict.KEPT if kept else Verdict.DIFFERENT)


@pytest.mark.parametrize("agreeing", [1, 2])
def test_so_many_other_witnesses_must_agree(agreeing: int) -> None:
    """Whichever of them these are. What the others heard does not matter then."""
    other = heard("and no more of it")
    enough = Verdict.KEPT if agreeing == 1 else Verdict.DIFFERENT
    assert verdict(heard(), heard(), heard(), agreeing=agreeing) is Verdict.KEPT
    assert verdict(heard(), heard(), other, agreeing=agreeing) is enough
    assert verdict(heard(), other, heard(), agreeing=agreeing) is enough
    assert verdict(heard(), other, other, agreeing=agreeing) is Verdict.DIFFERENT


def test_no_difference_may_be_allowed() -> None:
    """A single other word is too much then."""
    assert verdict(heard(), heard(), different=0.0) is Verdict.KEPT
    assert verdict(heard(), heard(TEXT.replace("we", "he")), different=0.0) is Verdict.DIFFERENT


def test_the_first_witness_may_have_to_be_sure() -> None:
    """The others' sureness does not count."""
    sure, unsure = replace(heard(), log_probability=-0.05), replace(heard(), log_probability=-0.2)
    limits = Limits(surer_than=-0.1)
    assert judge([sure, unsure], 4.0, limits, ENGLISH_WORDS.__contains__) is Verdict.KEPT
    assert judge([unsure, sure], 4.0, limits, ENGLISH_WORDS.__contains__) is Verdict.UNSURE


def test_where_words_are_divided_makes_no_difference() -> None:
    """Witnesses write *anyone* or *any one*."""
    assert difference(["any", "one"], ["anyone"]) == 0
    assert difference(["any", "one"], ["any", "two"]) == 0.5


def test_without_words_there_is_no_text() -> None:
    """Also if another witness heard some."""
    assert verdict(heard(""), heard()) is Verdict.SILENT


def test_another_language_is_dropped() -> None:
    """A witness hears it, or most words are not in our lexicon."""
    assert verdict(heard(), heard(language="en")) is Verdict.KEPT
    assert verdict(heard(), heard(language="nl")) is Verdict.FOREIGN
    dutch = "dit zijn tien woorden in een regel of meer"
    assert verdict(heard(dutch), heard(dutch)) is Verdict.FOREIGN


def test_letters_that_no_manifest_has_are_dropped() -> None:
    """A manifest has letters from A to Z and apostrophes."""
    assert verdict(heard(f"{TEXT} ø"), heard(f"{TEXT} ø")) is Verdict.UNWRITABLE


def test_no_text_of_dev_is_kept() -> None:
    """A text that is to be avoided is dropped."""
    assert verdict(heard(), heard(), avoided=TEXT) is Verdict.AVOIDED


@pytest.mark.parametrize(
    ("text", "circles"),
    [
        ("no no no no", False),
        ("no no no no no", True),
        ("of it of it of it", False),
        ("and of it of it of it of it", True),
        (f"{TEXT} {TEXT} {TEXT} {TEXT}", True),
        (TEXT, False),
        ("", False),
    ],
)
def test_a_text_in_circles_is_dropped(text: str, circles: bool) -> None:
    """A word may come four times in a row, and a phrase three times."""
    assert repeats(text.split()) is circles
    if circles:
        assert verdict(heard(text), heard(), speech_s=10) is Verdict.CIRCLING


def test_a_text_without_an_end_is_dropped() -> None:
    """Whichever witness did not end."""
    assert verdict(replace(heard(), complete=False), heard()) is Verdict.CIRCLING
    assert verdict(heard(), replace(heard(), complete=False)) is Verdict.CIRCLING


@pytest.mark.parametrize(
    ("words", "speech_s", "may_be"),
    [
        (2, 0.0, True),
        (3, 0.0, False),
        (9, 1.0, True),
        (10, 1.0, False),
        (1, 4.0, True),
        (2, 4.1, False),
        (10, 20, True),
    ],
)
def test_nobody_says_so_many_or_so_few_words(words: int, speech_s: float, may_be: bool) -> None:
    """Seven words a second at most, and two more; half a word a second at least in longer speech."""
    assert possible(words, speech_s) is may_be


def test_words_without_speech_are_dropped() -> None:
    """Readers write words for noise and music."""
    assert verdict(heard(), heard(), speech_s=0.2) is Verdict.IMPOSSIBLE
