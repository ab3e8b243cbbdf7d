"""What counting tells about words."""

from __future__ import annotations

from streamer.training.punctuation.labelled_text import number_sentences
from streamer.training.punctuation.punctuated_text import labelled_sentences
from streamer.training.punctuation.word_habits import WordHabits


def test_habits_are_logarithms_of_ratios_to_the_average() -> None:
    """A word that often has a comma after it has a positive one, and an average word nearly zero."""
    numbers: dict[str, int] = {}
    text = number_sentences(labelled_sentences("However, it is. However, we met Bob. However, I saw it. " * 9), numbers)
    words = list(numbers)
    habits = WordHabits([text], len(words))
    found = dict(zip(words, habits.of(range(len(words))), strict=True))
    assert found["however"][0] > 0.2
    assert found["saw"][0] < -0.2
    assert found["it"][1] > 0.1
    assert found["met"][1] < -0.1


def test_the_vocabulary_is_the_most_frequent_words_that_can_be_written() -> None:
    """The vocabulary is in the order of frequency; rare words have no row."""
    numbers: dict[str, int] = {}
    text = number_sentences(labelled_sentences("A b c a b a a b c d."), numbers)
    words = list(numbers)
    habits = WordHabits([text], len(words))
    assert [words[number] for number in habits.vocabulary(words, {"a", "b", "d"}, 5)] == ["a", "b"]
    assert [words[number] for number in habits.vocabulary(words, {"a", "b"}, 1)] == ["a"]
