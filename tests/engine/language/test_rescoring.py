"""The scores of words in both language models, and the gains of their mixture."""

from __future__ import annotations

import math

import pytest
import torch

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.neural_model import NeuralModel
from streamer.engine.language.rescoring import BothScores, Context, Rescorer

WORDS = ["cat", "dog", "mouse", "zebu", "quokka"]
KNOWN = 5  # the reserved ones, cat and dog


def languages() -> tuple[LanguageModel, NeuralModel]:
    """Return a model of five words, and a neural one of the first two."""
    ngrams: dict[tuple[str, ...], tuple[float, float]]
    ngrams = {(word,): (math.log(chance), 0.0) for word, chance in zip(WORDS, (0.4, 0.3, 0.1, 0.08, 0.02), strict=True)}
    language = LanguageModel.build(WORDS, {**ngrams, ("</s>",): (math.log(0.1), 0.0), ("cat", "dog"): (-0.1, 0.0)})
    torch.manual_seed(0)
    return language, NeuralModel(KNOWN, 8, 8, language.vocabulary).eval()


def after(rescorer: Rescorer, language: LanguageModel, *words: str) -> Context:
    """Return the context of these words."""
    context = rescorer.start()
    for word in words:
        context = rescorer.after(context, language.words.index(word))
    return context


def test_words_share_what_the_neural_model_gives_to_all_others() -> None:
    """Words outside the neural model share the probability of its word 0 by their unigrams."""
    language, neural = languages()
    rescorer = Rescorer(neural, language)
    context = after(rescorer, language, "cat")
    numbers = [language.words.index(word) for word in WORDS]
    found = rescorer.score([(context, number) for number in (1, 2, *numbers)]).neural
    assert context.memory is not None
    total = neural.sums(context.memory.unsqueeze(0))[0]
    assert float(found.logsumexp(0)) == pytest.approx(float(total), abs=1e-5)
    assert float(found[-3] - found[-1]) == pytest.approx(math.log(5), abs=1e-4)  # mouse and quokka


def test_the_ngram_model_knows_two_words() -> None:
    """The score of the n-gram model depends on the last two words, in short and long sentences and at their ends."""
    language, neural = languages()
    rescorer = Rescorer(neural, language)
    cat, dog, zebu, end = (language.words.index(word) for word in ("cat", "dog", "zebu", "</s>"))
    one, two, three = (after(rescorer, language, *words) for words in (["cat"], ["cat", "dog"], ["cat", "dog", "zebu"]))
    found = rescorer.score([(rescorer.start(), cat), (one, dog), (two, zebu), (three, end)])
    contexts = torch.tensor([language.start, (language.start[1], cat), (cat, dog), (dog, zebu)])
    assert torch.equal(found.ngram, language.score(contexts, torch.tensor([cat, dog, zebu, end])))


def test_a_word_that_no_model_knows_gains_nothing() -> None:
    """A word in neither model, such as a hotword, has no gain. It can be part of a sentence."""
    language, neural = languages()
    rescorer, new = Rescorer(neural, language), len(language.words) + 3
    both = rescorer.score([(rescorer.start(), new)])
    assert both.neural[0] == both.ngram[0]
    assert rescorer.gains([(rescorer.start(), new)], 0.5) == [0.0]
    unknown = rescorer.score([(rescorer.after(rescorer.start(), 0), 1)])
    assert torch.equal(rescorer.score([(rescorer.after(rescorer.start(), new), 1)]).neural, unknown.neural)


def test_contexts_are_read_in_any_order() -> None:
    """A long context gives the same scores whether the contexts before it were scored or not."""
    language, neural = languages()
    words = ["cat", "dog", "cat", "zebu", "dog"]
    step_by_step, at_once = Rescorer(neural, language), Rescorer(neural, language)
    context = step_by_step.start()
    for word in words:
        step_by_step.gains([(context, 1)], 0.5)
        context = step_by_step.after(context, language.words.index(word))
    wanted = step_by_step.score([(context, number) for number in range(KNOWN)])
    last = after(at_once, language, *words)
    found = at_once.score([(last, number) for number in range(KNOWN)])
    assert torch.equal(found.neural, wanted.neural)
    assert last.before is None  # once read, it keeps nothing else alive


def test_the_gain_is_that_of_the_mixture() -> None:
    """The gain is the logarithm of the mixture; with a share of 1, only the neural model counts."""
    both = BothScores(torch.tensor([0.5, 0.2]).log(), torch.tensor([0.25, 0.4]).log())
    assert both.gains(1.0) == pytest.approx([math.log(2), -math.log(2)])
    assert both.gains(0.5) == pytest.approx([math.log(0.375 / 0.25), math.log(0.3 / 0.4)])
    assert both.gains(0.0) == [0.0, 0.0]


def test_the_neural_model_alone_may_find_a_word_impossible() -> None:
    """A word that is impossible in the neural model has a finite gain with a share of 1."""
    both = BothScores(torch.tensor([-60.0, -2.0]), torch.tensor([-3.0, -5.0]))
    assert both.gains(1.0) == [-57.0, 3.0]
    assert both.gains(0.5)[0] == pytest.approx(math.log(0.5))


def test_a_model_for_other_words_is_refused() -> None:
    """A neural model with another vocabulary is refused."""
    language, _ = languages()
    with pytest.raises(ValueError, match=r"rescoring\.safetensors was trained for other words"):
        Rescorer(NeuralModel(KNOWN, 4, 3, "others"), language)
