"""The estimation of the letter-to-sound model: alignment, probabilities, pruning."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.training.language.graphones import Entry, align, estimate

SOUNDS = {"b": "B", "d": "D", "f": "F", "m": "M", "n": "N", "p": "P", "a": "AE", "o": "AA", "x": "K S"}
WORDS = [
    consonant + vowel + last for consonant in "bdfmnp" for vowel in "ao" for last in ("b", "d", "m", "n", "x", "ph", "")
]


def spelled(word: str) -> tuple[str, ...]:
    """Return words of a tiny language: every letter has its sound, and `ph` is an F."""
    return tuple(sound for letter in word.replace("ph", "f") for sound in SOUNDS[letter].split())


ENTRIES: list[Entry] = [(word, spelled(word)) for word in WORDS]


@pytest.fixture(scope="module")
def model() -> LetterToSound:
    """Return a model of three graphones at a time, without pruning."""
    return estimate(ENTRIES, 3, 0.0)


def test_letters_are_aligned_to_their_phones() -> None:
    """A letter is aligned to one phone, two, or none."""
    aligned = {"".join(letter for letter, _ in word): [phones for _, phones in word] for word in align(ENTRIES)}
    assert len(aligned) == len(WORDS)
    assert aligned["dox"] == [("D",), ("AA",), ("K", "S")]
    assert sorted(aligned["maph"][2:]) == [(), ("F",)]


def test_the_order_of_entries_does_not_matter(model: LetterToSound) -> None:
    """The same words in another order give the same file."""
    assert estimate(ENTRIES[::-1], 3, 0.0).to_bytes() == model.to_bytes()


def test_new_words_are_read_as_the_language_wants(model: LetterToSound) -> None:
    """Known letters in new positions are pronounced correctly."""
    for word in ("bobab", "daphob", "xa", "fodox"):
        assert tuple(model.pronounce(word)[0]) == spelled(word), word


@pytest.mark.parametrize("least", [0.0, 0.5, 5.0])
def test_probabilities_add_up_to_one(least: float) -> None:
    """Probabilities add up to one after any context, however much is pruned."""
    model = estimate(ENTRIES, 3, least)
    everything = np.arange(model._size)
    contexts = model._start
    for _ in range(3):
        scores, below = model._extend(contexts, everything)
        assert np.exp(scores).sum(axis=1) == pytest.approx(np.ones(len(contexts)), abs=0.05)
        # All contexts that one more graphone leads to.
        longer = np.moveaxis(below[:, :-1], 1, 2).reshape(-1, below.shape[1] - 1)
        contexts = np.unique(np.pad(longer, ((0, 0), (1, 0))), axis=0)
    assert len(contexts) > 1


def test_pruning_makes_the_file_smaller(model: LetterToSound) -> None:
    """The n-grams that gain least are removed first."""
    sizes = [len(estimate(ENTRIES, 3, least).to_bytes()) for least in (0.0, 0.5, 5.0)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]
