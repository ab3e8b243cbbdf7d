"""The words of a language model by number, and their numbers."""

from __future__ import annotations

import random

import pytest

from streamer.engine.language import word_list
from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.word_list import WordList
from streamer.engine.memory.footprint import footprint
from tests.project import ROOT

WORDS = ["<unk>", "<s>", "</s>", "zürich", "a", "ab", "Ab", "naïve", "", "b", "你好", "z"]


def test_words_and_numbers() -> None:
    """Each word has its number and each number its word, in whichever script."""
    words = WordList.of(WORDS)
    assert list(words) == WORDS
    assert len(words) == len(WORDS)
    assert [words[number] for number in range(len(WORDS))] == WORDS
    assert [words.number_of(word) for word in WORDS] == list(range(len(WORDS)))
    assert words[-1] == WORDS[-1]
    assert words[1:4] == WORDS[1:4]
    for missing in ("aa", "<", "zz", "\n", "￿"):
        assert words.number_of(missing) is None
    for number in (len(WORDS), -len(WORDS) - 1):
        with pytest.raises(IndexError, match="out of range"):
            words[number]


def test_words_with_the_same_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of several words with one hash has its number, and a word that is not there has none."""
    monkeypatch.setattr(word_list, "_hash", lambda word: len(word) % 2)
    words = WordList.of(WORDS)
    assert [words.number_of(word) for word in WORDS] == list(range(len(WORDS)))
    assert words.number_of("aa") is words.number_of("c") is None


def test_a_single_word() -> None:
    """A list may have one word."""
    words = WordList.of(["a"])
    assert (list(words), words[0], words.number_of("a"), words.number_of("b")) == (["a"], "a", 0, None)


def test_the_fingerprint_depends_on_the_order() -> None:
    """Other words, or another order, have another fingerprint."""
    kinds = (WORDS, WORDS[::-1], WORDS[1:])
    assert len({WordList.of(words).fingerprint for words in kinds}) == len(kinds)


def test_the_shipped_words_take_no_memory() -> None:
    """The 100,000 words of the shipped model stay in their file, and are found there."""
    words = LanguageModel.load(ROOT / "asr_repo/streaming_asr/1/language.safetensors").words
    assert footprint(words).own < 10_000
    texts = list(words)
    for number in random.Random(0).sample(range(len(words)), 1000):
        assert words[number] == texts[number]
        assert words.number_of(texts[number]) == number
