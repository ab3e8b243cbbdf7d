"""Alternatives under both language models, and what their mixture says more."""

from __future__ import annotations

import math

import pytest
import torch

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.neural_model import NeuralModel
from streamer.engine.language.rescoring import BothScores, Rescorer

WORDS = ["cat", "dog", "mouse", "zebu", "quokka"]
KNOWN = 5  # the reserved ones, cat and dog


def languages() -> tuple[LanguageModel, NeuralModel]:
    """A model of five words, and a neural one of the first two."""
    ngrams: dict[tuple[str, ...], tuple[float, float]]
    ngrams = {(word,): (math.log(chance), 0.0) for word, chance in zip(WORDS, (0.4, 0.3, 0.1, 0.08, 0.02), strict=True)}
    language = LanguageModel.build(WORDS, {**ngrams, ("</s>",): (math.log(0.1), 0.0), ("cat", "dog"): (-0.1, 0.0)})
    torch.manual_seed(0)
    return language, NeuralModel(KNOWN, 4, 3, language.vocabulary).eval()


def test_words_share_what_the_neural_model_gives_to_all_others() -> None:
    """By their unigrams, so that all words together keep the probability of one."""
    language, neural = languages()
    rescorer = Rescorer(neural, language)
    found = {word: float(rescorer.compare(["cat"], [[word]])[0].neural[0]) for word in WORDS}
    reserved = neural.score([language.words.index("cat")], [[1], [2]])
    total = sum(map(math.exp, found.values())) + sum(float(scores[0].exp()) for scores in reserved)
    assert total == pytest.approx(1.0, abs=1e-5)
    assert found["mouse"] - found["quokka"] == pytest.approx(math.log(5), abs=1e-4)


def test_both_models_score_the_words_and_the_end() -> None:
    """The n-gram model from the two words before, those that all begin with included."""
    language, neural = languages()
    [first, second] = Rescorer(neural, language).compare(["cat"], [["dog", "zebu"], []])
    numbers = [language.words.index(word) for word in ("cat", "dog", "zebu", "</s>")]
    wanted = language.score(torch.tensor([[1, numbers[0]], numbers[:2], numbers[1:3]]), torch.tensor(numbers[1:]))
    assert torch.allclose(first.ngram, wanted)
    assert len(first.neural) == 3
    assert len(second.neural) == len(second.ngram) == 1


def test_a_word_that_no_model_knows_gains_nothing() -> None:
    """Such as a hotword: nothing is known about it, so both scores are the same."""
    language, neural = languages()
    [both] = Rescorer(neural, language).compare([], [["streamer"]])
    assert both.neural[0] == both.ngram[0]


def test_the_gain_is_that_of_the_mixture() -> None:
    """With a share of 1 the neural model counts alone; words and the end have weights of their own."""
    both = BothScores(torch.tensor([0.5, 0.2]).log(), torch.tensor([0.25, 0.4]).log())
    assert both.gain(1.0, 1.0, 0.0) == pytest.approx(math.log(2))
    assert both.gain(1.0, 0.0, 2.0) == pytest.approx(-2 * math.log(2))
    assert both.gain(0.5, 1.0, 1.0) == pytest.approx(math.log(0.375 / 0.25) + math.log(0.3 / 0.4))
    assert both.gain(0.5, 0.0, 0.0) == 0.0


def test_a_model_for_other_words_is_refused() -> None:
    """Its numbers would stand for the wrong words."""
    language, _ = languages()
    with pytest.raises(ValueError, match=r"rescoring\.safetensors was trained for other words"):
        Rescorer(NeuralModel(KNOWN, 4, 3, "others"), language)
