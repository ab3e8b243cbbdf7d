"""Decides when the neural language model scores the words of a hypothesis again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.neural_model import NeuralModel
from streamer.engine.networks.neural_network import NeuralNetwork
from streamer.engine.search.beams import NO_HISTORY
from streamer.engine.search.rescoring import BeamStep, BothScores, Context, NeuralRescoring, Rescorer
from streamer.engine.search.search import BeamOptions
from tests.engine.tiny_language import Tongue, compiled, neural_model

BEAM = 4
OPTIONS = BeamOptions(beam=BEAM, rescoring_floor=0.1, neural_share=0.5, neural_weight=2.0)
FIRST, SECOND = 3, 4  # numbers of words
EMPTY, WITH_FIRST, WITH_SECOND, WITH_BOTH, DEAD = 100, 101, 102, 103, 3  # hashes


class Beam:
    """The beam of one slot, with the gains of its words."""

    def __init__(self, floor: float = OPTIONS.rescoring_floor) -> None:
        tongue = Tongue(0)
        self.rescorer = Rescorer(neural_model(tongue), tongue.model)
        self.rescoring = NeuralRescoring(self.rescorer, BeamOptions(**{**vars(OPTIONS), "rescoring_floor": floor}), 1)
        self.rescoring.reset(0)

    def follow(
        self, histories: Sequence[int], hashes: Sequence[int], masses: Sequence[float], *ended: tuple[int, int]
    ) -> list[float] | None:
        """Return the gains of the rows after a step; None if nothing was rescored. `ended` has rows and words."""
        changed = self.rescoring.follow([BeamStep(0, histories, hashes, masses, lambda number: ended[number])])
        return self.rescoring.gains(0) if changed else None

    def gain(self, *words: int) -> float:
        """Return the expected gain of these words."""
        context, total = self.rescorer.start(), 0.0
        for word in words:
            [gain] = self.rescorer.gains([(context, word)], OPTIONS.neural_share)
            context, total = self.rescorer.after(context, word), total + OPTIONS.neural_weight * gain
        return total


def test_unlikely_hypotheses_wait() -> None:
    """Words of an unlikely hypothesis are scored at the end of the step after which it is likely."""
    beam = Beam()
    ended = (0, FIRST), (0, SECOND)
    found = beam.follow(
        [BEAM, BEAM + 1, 0, NO_HISTORY], [WITH_FIRST, WITH_SECOND, EMPTY, DEAD], [1.0, 0.05, 0.02, 0.0], *ended
    )
    assert found == pytest.approx([beam.gain(FIRST), 0.0, 0.0, beam.gain()])
    hashes = [WITH_SECOND, WITH_FIRST, EMPTY, DEAD]
    assert beam.follow([1, 0, 2, NO_HISTORY], hashes, [0.09, 1.0, 0.02, 0.0]) is None
    found = beam.follow([0, 1, 2, NO_HISTORY], hashes, [0.11, 1.0, 0.02, 0.0])
    assert found == pytest.approx([beam.gain(SECOND), beam.gain(FIRST), 0.0, found[3] if found else 0.0])


def test_words_that_waited_are_scored_before_those_after_them() -> None:
    """A word after one that waits brings both gains, and the row that still has only the first word gets its own."""
    beam = Beam()
    assert beam.follow([BEAM, 0, 0, 0], [WITH_SECOND, EMPTY, EMPTY, EMPTY], [0.01, 1.0, 0.0, 0.0], (0, SECOND)) is None
    found = beam.follow([BEAM, 0, 1, 1], [WITH_BOTH, WITH_SECOND, EMPTY, EMPTY], [1.0, 0.01, 0.5, 0.0], (0, FIRST))
    assert found == pytest.approx([beam.gain(SECOND, FIRST), beam.gain(SECOND), 0.0, 0.0])


def test_a_word_that_ended_in_two_ways_is_one_history() -> None:
    """If one of the ways is likely, both have the gain."""
    beam = Beam()
    ended = (0, FIRST), (0, FIRST)
    found = beam.follow([BEAM, BEAM + 1, 0, 0], [WITH_FIRST, WITH_FIRST, EMPTY, EMPTY], [0.01, 1.0, 0.5, 0.5], *ended)
    assert found == pytest.approx([beam.gain(FIRST), beam.gain(FIRST), 0.0, 0.0])


def test_without_a_floor_all_words_are_scored_at_once() -> None:
    """Without a floor, the words of all hypotheses are scored."""
    beam = Beam(floor=0.0)
    found = beam.follow([BEAM, 0, 0, 0], [WITH_SECOND, EMPTY, EMPTY, EMPTY], [1e-9, 1.0, 0.0, 0.0], (0, SECOND))
    assert found == pytest.approx([beam.gain(SECOND), 0.0, 0.0, 0.0])


WORDS = ["cat", "dog", "mouse", "zebu", "quokka"]
KNOWN = 5  # the reserved ones, cat and dog


def languages() -> tuple[LanguageModel, NeuralModel]:
    """Return a model of five words, and a neural one of the first two."""
    ngrams: dict[tuple[str, ...], tuple[float, float]]
    ngrams = {(word,): (math.log(chance), 0.0) for word, chance in zip(WORDS, (0.4, 0.3, 0.1, 0.08, 0.02), strict=True)}
    language = LanguageModel.build(WORDS, {**ngrams, ("</s>",): (math.log(0.1), 0.0), ("cat", "dog"): (-0.1, 0.0)})
    torch.manual_seed(0)
    return language, compiled(NeuralNetwork(KNOWN, 8, 8, language.vocabulary))


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
    total = NeuralNetwork.of(neural.weights).sums([torch.from_numpy(context.memory)])[0]
    assert float(np.logaddexp.reduce(found)) == pytest.approx(float(total), abs=1e-5)
    assert float(found[-3] - found[-1]) == pytest.approx(math.log(5), abs=1e-4)  # mouse and quokka


def test_the_ngram_model_knows_two_words() -> None:
    """The score of the n-gram model depends on the last two words, in short and long sentences and at their ends."""
    language, neural = languages()
    rescorer = Rescorer(neural, language)
    cat, dog, zebu, end = (language.words.index(word) for word in ("cat", "dog", "zebu", "</s>"))
    one, two, three = (after(rescorer, language, *words) for words in (["cat"], ["cat", "dog"], ["cat", "dog", "zebu"]))
    found = rescorer.score([(rescorer.start(), cat), (one, dog), (two, zebu), (three, end)])
    contexts = [language.start, (language.start[1], cat), (cat, dog), (dog, zebu)]
    assert np.array_equal(found.ngram, language.score(contexts, [cat, dog, zebu, end]))


def test_a_word_that_no_model_knows_gains_nothing() -> None:
    """A word in neither model, such as a hotword, has no gain. It can be part of a sentence."""
    language, neural = languages()
    rescorer, new = Rescorer(neural, language), len(language.words) + 3
    both = rescorer.score([(rescorer.start(), new)])
    assert both.neural[0] == both.ngram[0]
    assert rescorer.gains([(rescorer.start(), new)], 0.5) == [0.0]
    unknown = rescorer.score([(rescorer.after(rescorer.start(), 0), 1)])
    assert np.array_equal(rescorer.score([(rescorer.after(rescorer.start(), new), 1)]).neural, unknown.neural)


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
    assert np.array_equal(found.neural, wanted.neural)
    assert last.before is None  # once read, it keeps nothing else alive


def test_the_gain_is_that_of_the_mixture() -> None:
    """The gain is the logarithm of the mixture; with a share of 1, only the neural model counts."""
    both = BothScores(*(np.log(np.array(chances, np.float32)) for chances in ([0.5, 0.2], [0.25, 0.4])))
    assert both.gains(1.0) == pytest.approx([math.log(2), -math.log(2)])
    assert both.gains(0.5) == pytest.approx([math.log(0.375 / 0.25), math.log(0.3 / 0.4)])
    assert both.gains(0.0) == [0.0, 0.0]


def test_the_neural_model_alone_may_find_a_word_impossible() -> None:
    """A word that is impossible in the neural model has a finite gain with a share of 1."""
    both = BothScores(np.array([-60.0, -2.0], np.float32), np.array([-3.0, -5.0], np.float32))
    assert both.gains(1.0) == [-57.0, 3.0]
    assert both.gains(0.5)[0] == pytest.approx(math.log(0.5))


def test_a_model_for_other_words_is_refused() -> None:
    """A neural model with another vocabulary is refused."""
    language, _ = languages()
    with pytest.raises(ValueError, match=r"rescoring\.safetensors was trained for other words"):
        Rescorer(compiled(NeuralNetwork(KNOWN, 4, 3, "others")), language)
