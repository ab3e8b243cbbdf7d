"""Prompts for synthetic voices have the form of transcripts, and contain all given words."""

from __future__ import annotations

import random
import re
from itertools import islice

import pytest

from streamer.training.data.synthetic_prompts import DICTATION, LETTER_NAMES, cardinal, prompts, spoken, transcript

WORDS = [f"{first}{second}ord" for first in "bcdfghjk" for second in "aeiou"]


def some(number: int, seed: int = 1) -> list[str]:
    """Return the first prompts."""
    return list(islice(prompts(WORDS, random.Random(seed)), number))


def test_the_same_seed_says_the_same() -> None:
    """The same seed gives the same prompts, and another seed other ones."""
    assert some(50) == some(50)
    assert some(50) != some(50, seed=2)


def test_a_transcript_is_words_of_small_letters() -> None:
    """Transcripts have no digits, no signs but the apostrophe, and no empty gaps."""
    for prompt in some(2000):
        assert re.fullmatch(r"[a-z']+( [a-z']+)*", transcript(prompt)), prompt


def test_every_word_comes_once_before_any_comes_twice() -> None:
    """Every word of a long list comes once before any word comes twice."""
    said = [word for prompt in some(200) for word in prompt.split() if word in WORDS]
    assert len(said) > 2 * len(WORDS)
    assert set(said[: len(WORDS)]) == set(said[len(WORDS) : 2 * len(WORDS)]) == set(WORDS)


def test_all_letters_and_digits_are_said() -> None:
    """All letters and digits come within a few hundred prompts."""
    said = {word for prompt in some(1500) for word in prompt.split()}
    assert set(LETTER_NAMES) <= said
    assert {"zero", "oh", "one", "nine", "fifteen", "forty", "hundred", "thousand"} <= said


def test_dictation_spells_words_and_says_digits() -> None:
    """Dictated text spells words letter by letter, and sometimes says "double" for two equal letters or digits."""
    said = [transcript(prompt) for prompt in islice(prompts(["hello"], random.Random(1), DICTATION), 2000)]
    assert all(re.fullmatch(r"[a-z']+( [a-z']+)*", prompt) for prompt in said)
    text = " | ".join(said)
    for part in ("h e l l o", "h e double l o", "my phone number is ", " double seven", " hello street"):
        assert part in text, part


def test_a_voice_is_given_the_names_of_letters() -> None:
    """Single letters are replaced by their names for a voice, and words stay."""
    assert spoken("it is spelled A W I") == "it is spelled ay, double-you, eye."
    assert spoken("i have a cat") == "I have a cat."


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (91, "ninety one"),
        (100, "one hundred"),
        (612, "six hundred twelve"),
        (1000, "one thousand"),
        (20_305, "twenty thousand three hundred five"),
    ],
)
def test_numbers_in_words(number: int, words: str) -> None:
    """Numbers in words have no hyphens, as in transcripts."""
    assert cardinal(number) == words
