"""Normalisation of texts."""

from __future__ import annotations

import pytest

from streamer.evaluate.normalise import normalise


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MISTER QUILTER'S MANNER", ["mister", "quilter's", "manner"]),
        ("Well - yes, well-known; (no?) \u2026 Fine.", ["well", "yes", "well", "known", "no", "fine"]),
        ("the dogs' tails 'tis 'em", ["the", "dogs'", "tails", "'tis", "'em"]),
        ("say 'hello' and '' go", ["say", "hello", "and", "go"]),
        ("don\u2019t won\u2018t can\u00b4t", ["don't", "won't", "can't"]),
        ("Room 42, 3.5 percent", ["room", "42", "3", "5", "percent"]),
        ("caf\u00e9 cafe\u0301 _na\u00efve_", ["caf\u00e9", "caf\u00e9", "na\u00efve"]),
        ("他说“你好”， 2024年 ＯＫ", ["他", "说", "你", "好", "2024", "年", "ok"]),
        ("\t. - ' \n", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    """Text becomes lower case, apostrophes of words and digits stay, other punctuation becomes a space."""
    assert normalise(text) == words


def test_it_does_not_change_its_own_result() -> None:
    """Normalised text does not change."""
    words = normalise("It's THE dogs' 2nd caf\u00e9, isn't it?")
    assert normalise(" ".join(words)) == words


def test_a_text_is_its_parts() -> None:
    """Normalising word by word gives the same as normalising the whole text."""
    text = "Well-known 'tis 3.5, the 'quoted' dogs'"
    assert [word for part in text.split() for word in normalise(part)] == normalise(text)
