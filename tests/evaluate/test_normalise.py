"""What counts as the same word."""

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
        ("\t. - ' \n", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    """Lower case, apostrophes of words kept, the rest of the punctuation a space, digits as they are."""
    assert normalise(text) == words


def test_it_does_not_change_its_own_result() -> None:
    """What is normal stays as it is, so references and hypotheses may be given either way."""
    words = normalise("It's THE dogs' 2nd caf\u00e9, isn't it?")
    assert normalise(" ".join(words)) == words


def test_a_text_is_its_parts() -> None:
    """Word for word gives the same as the whole: emissions are normalised word for word."""
    text = "Well-known 'tis 3.5, the 'quoted' dogs'"
    assert [word for part in text.split() for word in normalise(part)] == normalise(text)
