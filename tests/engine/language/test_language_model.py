"""The language model at run time: exact tables, correct back-off, memory-mapped files."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from streamer.engine.language.language_model import RESERVED, LanguageModel, NgramTable
from streamer.engine.language.ngram_loops import ABSENT, index_of, value_at
from streamer.engine.model_file import ModelFileError

Grams = dict[tuple[str, ...], tuple[float, float]]
# The steps of the file: half of them is what a trigram's and a backed-off bigram's score may be off.
TRIGRAM_ERROR, BIGRAM_ERROR = 1 / 64, 1 / 128 + 1 / 64


def random_model(seed: int, words: int = 12) -> tuple[list[str], Grams]:
    """Return a vocabulary and n-grams with made-up values; trigrams only where their context is a bigram."""
    rng = np.random.default_rng(seed)
    vocabulary = [*RESERVED, *(f"w{number}" for number in range(words))]

    def some(candidates: list[tuple[str, ...]], share: float) -> Grams:
        chosen = [ngram for ngram in candidates if rng.random() < share]
        return {ngram: (-rng.uniform(0.01, 12), rng.uniform(-4, 1.5)) for ngram in chosen}

    unigrams = some([(word,) for word in vocabulary], 2)
    bigrams = some(list(itertools.product(vocabulary, repeat=2)), 0.3)
    trigrams = some([(*pair, word) for pair in bigrams for word in vocabulary], 0.3)
    return vocabulary, {**unigrams, **bigrams, **{ngram: (value, 0.0) for ngram, (value, _) in trigrams.items()}}


def look_up(ngrams: Grams, ngram: tuple[str, ...]) -> float:
    """Return the score by definition, one n-gram at a time."""
    if ngram in ngrams:
        return ngrams[ngram][0]
    return ngrams.get(ngram[:-1], (0.0, 0.0))[1] + look_up(ngrams, ngram[1:])


@pytest.mark.parametrize("seed", range(3))
def test_scores_equal_a_dictionary(seed: int) -> None:
    """Every context and word of a small model gets the score of a plain back-off, up to the rounding of the file."""
    words, ngrams = random_model(seed)
    model = LanguageModel.build(words, ngrams)
    ids = np.array(list(itertools.product(range(len(words)), repeat=3)))
    scores = model.score(ids[:, :2], ids[:, 2])
    expected = np.array([look_up(ngrams, tuple(words[number] for number in row)) for row in ids.tolist()])
    assert scores.dtype == np.float32
    assert np.abs(scores - expected).max() <= TRIGRAM_ERROR + BIGRAM_ERROR
    held = np.array([tuple(words[number] for number in row) in ngrams for row in ids.tolist()])
    assert np.abs(scores - expected)[held].max() <= TRIGRAM_ERROR + 1e-6


def test_scores_keep_the_shape_of_their_words() -> None:
    """Contexts and words of any shape get the same scores, one by one or together."""
    words, ngrams = random_model(7)
    model = LanguageModel.build(words, ngrams)
    contexts = np.random.default_rng(0).integers(len(words), size=(3, 4, 2))
    follow = np.random.default_rng(1).integers(len(words), size=(3, 4))
    together = model.score(contexts, follow)
    assert together.shape == (3, 4)
    for place in itertools.product(range(3), range(4)):
        assert model.score(contexts[place], follow[place]) == together[place]
    assert model.score(contexts[:0], follow[:0]).shape == (0, 4)


def test_the_start_is_a_context() -> None:
    """The first word of a sentence is scored after the start mark, the second after mark and word."""
    ngrams: Grams = {
        ("<s>",): (-99.0, -0.5),
        ("a",): (-1.0, -0.25),
        ("b",): (-2.0, 0.0),
        ("<s>", "a"): (-0.5, -0.125),
        ("<s>", "a", "b"): (-0.75, 0.0),
    }
    model = LanguageModel.build(["a", "b"], ngrams)
    assert list(model.words) == ["<unk>", "<s>", "</s>", "a", "b"]
    a, b = 3, 4
    contexts = np.array([model.start, model.start, (model.start[1], a), (a, b)])
    scores = model.score(contexts, np.array([a, b, b, a]))
    assert scores.tolist() == [-0.5, -2.5, -0.75, -1.0]


def test_unigrams_are_those_given() -> None:
    """Unigrams are natural logs by word; a word without one never happens."""
    model = LanguageModel.build(["a", "b"], {("a",): (math.log(0.5), 0.0)})
    assert model.unigrams.tolist() == pytest.approx([-99, -99, -99, math.log(0.5), -99])


def test_a_trigram_needs_its_context() -> None:
    """A trigram whose first two words are not a bigram is refused, because it could not be found."""
    with pytest.raises(ValueError, match="not a bigram"):
        LanguageModel.build(["a", "b"], {("a",): (-1.0, 0.0), ("a", "b", "a"): (-1.0, 0.0)})


def test_a_file_scores_as_the_model_that_wrote_it(tmp_path: Path) -> None:
    """A saved model loads with its words and scores, and no partial file remains."""
    words, ngrams = random_model(3, words=40)
    model = LanguageModel.build(words, ngrams)
    path = tmp_path / "language.safetensors"
    model.save(path)
    read = LanguageModel.load(path)
    assert list(read.words) == words
    assert np.array_equal(read.unigrams, model.unigrams)
    ids = np.random.default_rng(0).integers(len(words), size=(500, 3))
    assert np.array_equal(read.score(ids[:, :2], ids[:, 2]), model.score(ids[:, :2], ids[:, 2]))
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_size < LanguageModel.size(words, *(sum(len(n) == k for n in ngrams) for k in (2, 3))) + 8192


def test_odd_files_are_refused_with_a_reason(tmp_path: Path) -> None:
    """Missing, damaged and foreign files are refused with the reason."""
    path = tmp_path / "language.safetensors"
    with pytest.raises(ModelFileError, match="is missing"):
        LanguageModel.load(path)
    path.write_bytes(b"not a model")
    with pytest.raises(ModelFileError, match="cannot be read"):
        LanguageModel.load(path)
    save_file({"weights": np.zeros(3, np.float32)}, path)
    with pytest.raises(ModelFileError, match="not a language model"):
        LanguageModel.load(path)
    save_file({"weights": np.zeros(3, np.float32)}, path, {"language": '{"format": 1}'})
    with pytest.raises(ModelFileError, match="lacks a part"):
        LanguageModel.load(path)


@pytest.mark.parametrize(("number", "key_bits"), [(0, 20), (1, 0), (7, 12), (5000, 34), (60_000, 30)])
def test_tables_find_their_keys_and_no_others(number: int, key_bits: int) -> None:
    """Every key is found with its value and place, and absent keys are not found."""
    rng = np.random.default_rng(number)
    keys = np.unique(rng.integers(1 << key_bits, size=number))
    values = rng.integers(512, size=len(keys))
    table, places = NgramTable.pack(keys, values, key_bits, 9)
    arrays = table.look_ups()
    found = [index_of(arrays, key) for key in keys]
    assert found == places.tolist()
    assert [value_at(arrays, index) for index in found] == values.tolist()
    assert sorted(places) == list(range(len(keys)))
    others = np.setdiff1d(rng.integers(1 << key_bits, size=20_000), keys)
    assert {index_of(arrays, key) for key in others} <= {ABSENT}
    held = (table.starts.nbytes + table.entries.nbytes) - table.window * table.entries.itemsize
    assert held == NgramTable.size(len(keys), key_bits, 9)


def test_dense_tables_hold_every_key() -> None:
    """A table that holds all possible keys works."""
    keys = np.arange(1 << 12)
    arrays = NgramTable.pack(keys, keys % 7, 12, 3)[0].look_ups()
    assert [value_at(arrays, index_of(arrays, key)) for key in keys] == (keys % 7).tolist()
