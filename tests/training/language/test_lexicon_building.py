"""The lexicon has every word of the language model with all its pronunciations."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import Lexicon
from streamer.training.acoustic.units import PHONE_UNITS
from streamer.training.data.corpus import CorpusError
from streamer.training.language.lexicon_building import FIRST_WORD, build, divided
from streamer.training.language.pronunciation import Dictionary, cmu_dictionary

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
