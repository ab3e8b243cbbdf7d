"""Prompts for synthetic voices are texts as the transcripts have them, and cover the words that they are given."""

from __future__ import annotations

import random
import re
from itertools import islice

import pytest

from streamer.training.data.synthetic_prompts import LETTER_NAMES, cardinal, prompts, spoken, transcript

WORDS = [f"{first}{second}ord" for first in "bcdfghjk" for second in "aeiou"]


def some(number: int, seed: int = 1) -> list[str]:
    """The first prompts."""
    return list(islice(prompts(WORDS, random.Random(seed)), number))


def test_the_same_seed_says_the_same() -> None:
    """And another one something else."""
    assert some(50) == some(50)
    assert some(50) != some(50, seed=2)


def test_a_transcript_is_words_of_small_letters() -> None:
    """No digits, no signs but the apostrophe, no gap left open."""
    for prompt in some(2000):
        assert re.fullmatch(r"[a-z']+( [a-z']+)*", transcript(prompt)), prompt


def test_every_word_comes_once_before_any_comes_twice() -> None:
    """A long list of rare words is not said twice in part and never in part."""
    said = [word for prompt in some(200) for word in prompt.split() if word in WORDS]
    assert len(said) > 2 * len(WORDS)
    assert set(said[: len(WORDS)]) == set(said[len(WORDS) : 2 * len(WORDS)]) == set(WORDS)


def test_all_letters_and_digits_are_said() -> None:
    """Within a few hundred prompts."""
    said = {word for prompt in some(1500) for word in prompt.split()}
    assert set(LETTER_NAMES) <= said
    assert {"zero", "oh", "one", "nine", "fifteen", "forty", "hundred", "thousand"} <= said


def test_a_voice_is_given_the_names_of_letters() -> None:
    """What is written as a letter is said by its name; words stay words."""
    assert spoken("it is spelled A W I") == "it is spelled ay, double-you, eye."
    assert spoken("i have a cat") == "I have a cat."


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "zero"), (13, "thirteen"), (40, "forty"), (91, "ninety one"), (100, "one hundred"),
     (612, "six hundred twelve"), (1000, "one thousand"), (20_305, "twenty thousand three hundred five")],
)  # fmt: skip
def test_numbers_in_words(number: int, words: str) -> None:
    """Without hyphens, as transcripts have them."""
    assert cardinal(number) == words
