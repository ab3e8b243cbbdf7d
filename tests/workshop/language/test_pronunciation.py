"""Pronunciations from the dictionary, from known words and endings, or from letters."""

from __future__ import annotations

import pytest

from streamer.bridge.triton.repository import asr_repository
from streamer.engine.language.letter_to_sound import LetterToSound
from workshop.language.pronunciation import PHONES, Pronunciations, cmu_dictionary

DICTIONARY: dict[str, list[tuple[str, ...]]] = {
    "cat": [("K", "AE", "T")],
    "horse": [("HH", "AO", "R", "S")],
    "dog": [("D", "AO", "G")],
    "favored": [("F", "EY", "V", "ER", "D")],
    "realizes": [("R", "IY", "L", "AY", "Z", "IH", "Z")],
    "route": [("R", "UW", "T"), ("R", "AW", "T")],
}


@pytest.fixture(scope="module")
def pronunciations() -> Pronunciations:
    """Return pronunciations from a small dictionary and the shipped model."""
    return Pronunciations(
        DICTIONARY, LetterToSound.load(asr_repository() / "streaming_asr" / "1" / "letters.safetensors")
    )


def test_a_known_word_has_all_that_the_dictionary_says(pronunciations: Pronunciations) -> None:
    """A known word has all of its pronunciations, however few guesses are requested."""
    assert pronunciations.variants("route") == DICTIONARY["route"]
    assert pronunciations.knows("route")


@pytest.mark.parametrize(
    ("word", "ending"),
    [
        ("cat's", ["T", "S"]),
        ("dogs", ["G", "Z"]),
        ("horse's", ["S", "IH", "Z"]),
        ("dogs'", ["G", "Z"]),
        ("dog'll", ["G", "AH", "L"]),
        ("blorg's", ["G", "Z"]),
    ],
)
def test_an_ending_sounds_as_its_stem_wants(pronunciations: Pronunciations, word: str, ending: list[str]) -> None:
    """An ending is voiceless, voiced or a syllable, depending on the stem; also after a guessed stem."""
    (phones,) = pronunciations.variants(word)
    assert list(phones[-len(ending) :]) == ending
    assert not pronunciations.knows(word)


def test_every_pronunciation_of_the_stem_gets_the_ending(pronunciations: Pronunciations) -> None:
    """Both pronunciations of "route" give one for "routes"."""
    assert pronunciations.variants("routes") == [("R", "UW", "T", "S"), ("R", "AW", "T", "S")]


def test_british_spelling_sounds_as_american(pronunciations: Pronunciations) -> None:
    """A British spelling has the pronunciation of the American one, if that is known."""
    assert pronunciations.variants("favoured") == DICTIONARY["favored"]
    assert pronunciations.variants("realises") == DICTIONARY["realizes"]
    assert pronunciations.variants("hour") == [("AW", "R")]


def test_any_other_word_is_guessed(pronunciations: Pronunciations) -> None:
    """Other words get as many guesses as requested, from known phones; a word without letters has none."""
    assert pronunciations.variants("ship") == [("SH", "IH", "P")]
    assert len(pronunciations.variants("zyzzyva", guesses=3)) == 3
    for word in ("zyzzyva", "qi", "x", "o'sullivan's"):
        assert {phone for phones in pronunciations.variants(word) for phone in phones} <= set(PHONES)
    assert pronunciations.variants("'") == []


def test_the_dictionary_is_without_stress_and_without_doubles() -> None:
    """Pronunciations that differ only in stress are one."""
    dictionary = cmu_dictionary()
    assert dictionary["the"] == [("DH", "AH"), ("DH", "IY")]
    assert {phone for variants in dictionary.values() for phones in variants for phone in phones} == set(PHONES)
