"""Words that the dictionary lacks get a pronunciation from what it has, or from their letters."""

from __future__ import annotations

from training.pronunciation import PHONES, pronounce, spelled

KNOWN = {"cat": ["K", "AE", "T"], "horse": ["HH", "AO", "R", "S"], "dog": ["D", "AO", "G"], "house": ["HH", "AW", "S"]}


def test_a_known_word_is_as_in_the_dictionary() -> None:
    """The dictionary comes first."""
    assert pronounce("cat", KNOWN.get) == KNOWN["cat"]


def test_an_ending_sounds_as_its_stem_wants() -> None:
    """The ending is voiceless, voiced, or a syllable of its own."""
    assert pronounce("cat's", KNOWN.get)[-1] == "S"
    assert pronounce("dogs", KNOWN.get)[-1] == "Z"
    assert pronounce("horse's", KNOWN.get)[-2:] == ["IH", "Z"]


def test_a_compound_is_its_parts() -> None:
    """Two known words in one are read one after the other."""
    assert pronounce("doghouse", KNOWN.get) == KNOWN["dog"] + KNOWN["house"]


def test_any_other_word_is_spelled() -> None:
    """Every word of letters has phones, and only known ones."""
    assert spelled("ship") == ["SH", "IH", "P"]
    for word in ("zyzzyva", "qi", "x", "o'sullivan's"):
        phones = pronounce(word, KNOWN.get)
        assert phones
        assert set(phones) <= set(PHONES)
