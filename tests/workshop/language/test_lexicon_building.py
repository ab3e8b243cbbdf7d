"""The lexicon has every word with all its pronunciations, and the letter-to-sound model is estimated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon
from workshop.acoustic.units import PHONE_UNITS
from workshop.data.corpus import CorpusError
from workshop.language.lexicon_building import FIRST_WORD, Entry, align, build, divided, estimate
from workshop.language.pronunciation import Dictionary, cmu_dictionary

WORDS = ["tomato", "to", "two", "gloppety", "gloppety's"]


@pytest.fixture(scope="module")
def dictionary() -> Dictionary:
    """Return a part of CMUdict, so that training is quick."""
    whole = cmu_dictionary()
    return {word: whole[word] for word in sorted({*list(whole)[::25], *WORDS} & set(whole))}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, dictionary: Dictionary) -> Path:
    """Provide a folder in which both files were built."""
    folder = tmp_path_factory.mktemp("bundle")
    LanguageModel.build(WORDS, {(word,): (-1.0, 0.0) for word in WORDS}).save(folder / "language.safetensors")
    build(folder, dictionary, print)
    return folder


def words_of(lexicon: Lexicon, phones: str) -> set[str]:
    """Return the words with this pronunciation."""
    units = tuple(PHONE_UNITS.index(phone) for phone in phones.split())
    return {WORDS[word - FIRST_WORD] for word, found in lexicon.pronunciations() if found == units}


def test_words_have_all_their_pronunciations(bundle: Path) -> None:
    """A word may have several pronunciations, and several words may have the same one."""
    lexicon = Lexicon.load(bundle / "lexicon.safetensors")
    assert words_of(lexicon, "T AH M EY T OW") == words_of(lexicon, "T AH M AA T OW") == {"tomato"}
    assert words_of(lexicon, "T UW") == {"to", "two"}


def test_words_that_the_dictionary_lacks_are_guessed(bundle: Path) -> None:
    """Other words are guessed by the letter-to-sound model, or made from a known word and an ending."""
    lexicon = Lexicon.load(bundle / "lexicon.safetensors")
    guesses = LetterToSound.load(bundle / "letters.safetensors").pronounce("gloppety", 2)
    assert len(guesses) == 2
    for guess in guesses:
        assert words_of(lexicon, " ".join(guess)) == {"gloppety"}
    assert words_of(lexicon, " ".join([*guesses[0], "Z"])) == {"gloppety's"}


def test_nothing_half_written_stays(bundle: Path) -> None:
    """The folder has only complete files."""
    names = {path.name for path in bundle.iterdir()}
    assert names == {"language.safetensors", "letters.safetensors", "lexicon.safetensors"}


def test_words_to_judge_by_are_not_trained_on(dictionary: Dictionary) -> None:
    """The held-out words are always the same, and no word is lost."""
    kept, held_out = divided(dictionary)
    assert not set(kept) & set(held_out)
    assert {**kept, **held_out} == dictionary
    assert divided(dictionary) == (kept, held_out)


def test_what_is_missing_is_named(tmp_path: Path, dictionary: Dictionary) -> None:
    """A missing folder and a missing language model are named."""
    with pytest.raises(CorpusError, match="there is no folder"):
        build(tmp_path / "nowhere", dictionary, print)
    with pytest.raises(CorpusError, match="build_language_model"):
        build(tmp_path, dictionary, print)


SOUNDS = {"b": "B", "d": "D", "f": "F", "m": "M", "n": "N", "p": "P", "a": "AE", "o": "AA", "x": "K S"}
GRAPHONE_WORDS = [
    consonant + vowel + last for consonant in "bdfmnp" for vowel in "ao" for last in ("b", "d", "m", "n", "x", "ph", "")
]


def spelled(word: str) -> tuple[str, ...]:
    """Return words of a tiny language: every letter has its sound, and `ph` is an F."""
    return tuple(sound for letter in word.replace("ph", "f") for sound in SOUNDS[letter].split())


ENTRIES: list[Entry] = [(word, spelled(word)) for word in GRAPHONE_WORDS]


@pytest.fixture(scope="module")
def model() -> LetterToSound:
    """Return a model of three graphones at a time, without pruning."""
    return estimate(ENTRIES, 3, 0.0)


def test_letters_are_aligned_to_their_phones() -> None:
    """A letter is aligned to one phone, two, or none."""
    aligned = {"".join(letter for letter, _ in word): [phones for _, phones in word] for word in align(ENTRIES)}
    assert len(aligned) == len(GRAPHONE_WORDS)
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
