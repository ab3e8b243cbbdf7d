"""Decides when the neural language model scores the words of a hypothesis again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import ROOT
from streamer.engine.language.neural_model import NeuralModel
from streamer.engine.networks.neural_network import NeuralNetwork
from streamer.engine.search import rescoring
from streamer.engine.search.beams import ENDED_WORD, Beams, Histories, StepRecords
from streamer.engine.search.rescoring import BothScores, Context, NeuralRescoring, Rescorer
from streamer.engine.search.rescoring_loops import NO_CONTEXT, PAST
from streamer.engine.search.search import BeamOptions
from tests.engine.search.while_growing import work_while_growing
from tests.engine.tiny_language import Tongue, compiled, neural_model

BEAM = 4
OPTIONS = BeamOptions(beam=BEAM, rescoring_floor=0.1, neural_share=0.5, neural_weight=2.0)
FIRST, SECOND = 3, 4  # numbers of words
EMPTY, WITH_FIRST, WITH_SECOND, WITH_BOTH = 0, 101, 102, 103  # hashes; a segment begins with the first
Ended = tuple[int, int]
"""The hash of the history before a word, and the word."""
Row = tuple[int | Ended, int, float]


class Beam:
    """The beam of one slot, with the gains of its words."""

    def __init__(self, floor: float = OPTIONS.rescoring_floor) -> None:
        tongue = Tongue(0)
        self.rescorer = Rescorer(neural_model(tongue), tongue.model)
        self.rescoring = NeuralRescoring(self.rescorer, replace(OPTIONS, rescoring_floor=floor), 1)
        self.rescoring.reset(0)
        self._beams, self._histories = Beams(1, BEAM, tongue.model.start), Histories(1, BEAM)
        self._beams.reset(0)

    def follow(self, rows: Sequence[Row]) -> dict[int, float] | None:
        """Return the gains of the rows by their hashes after a step; None if nothing was rescored.

        Each row has the hash of what it continues, or a word that ended after that; then its own hash, and its mass.
        """
        hypotheses = self._beams.hypotheses[0]
        places = {one["history"]: place for place, one in enumerate(hypotheses) if one["total"] > 0}
        records = np.zeros((1, BEAM), ENDED_WORD)
        count = 0
        hypotheses["total"] = 0.0
        for row, (source, mark, mass) in zip(hypotheses, rows, strict=False):
            if isinstance(source, tuple):
                records[0, count]["before"], records[0, count]["word"] = places[source[0]], source[1]
                row["back"], count = BEAM + count, count + 1
            else:
                row["back"] = places[source]
            row["history"], row["total"], row["node"] = mark, mass, ROOT
        self.rescoring.reserve([0], BEAM)
        step = StepRecords(np.zeros(1, np.int64), records, np.array([count]))
        chosen = self.rescoring.follow(step, self._beams, self._histories, np.ones(1, np.float32))
        living = {int(one["history"]): float(one["gain"]) for one in hypotheses if one["total"] > 0}
        return living if len(chosen) else None

    def gain(self, *words: int) -> float:
        """Return the expected gain of these words."""
        context, total = self.rescorer.start(), 0.0
        for word in words:
            [gain] = self.rescorer.gains([(context, word)], OPTIONS.neural_share)
            context, total = self.rescorer.after(context, word), total + OPTIONS.neural_weight * gain
        return total

    def masses(self) -> list[float]:
        """Return the masses of the rows."""
        return [float(mass) for mass in self._beams.hypotheses[0]["total"]]


def test_unlikely_hypotheses_wait() -> None:
    """Words of an unlikely hypothesis are scored at the end of the step after which it is likely."""
    beam = Beam()
    found = beam.follow([((EMPTY, FIRST), WITH_FIRST, 1.0), ((EMPTY, SECOND), WITH_SECOND, 0.05), (EMPTY, EMPTY, 0.02)])
    assert found == pytest.approx({WITH_FIRST: beam.gain(FIRST), WITH_SECOND: 0.0, EMPTY: 0.0})
    rest: list[Row] = [(WITH_FIRST, WITH_FIRST, 1.0), (EMPTY, EMPTY, 0.02)]
    assert beam.follow([(WITH_SECOND, WITH_SECOND, 0.09), *rest]) is None
    found = beam.follow([(WITH_SECOND, WITH_SECOND, 0.11), *rest])
    assert found == pytest.approx({WITH_FIRST: beam.gain(FIRST), WITH_SECOND: beam.gain(SECOND), EMPTY: 0.0})


def test_words_that_waited_are_scored_before_those_after_them() -> None:
    """A word after one that waits brings both gains, and the row that still has only the first word gets its own."""
    beam = Beam()
    assert beam.follow([((EMPTY, SECOND), WITH_SECOND, 0.01), (EMPTY, EMPTY, 1.0)]) is None
    found = beam.follow([((WITH_SECOND, FIRST), WITH_BOTH, 1.0), (WITH_SECOND, WITH_SECOND, 0.01), (EMPTY, EMPTY, 0.5)])
    assert found == pytest.approx({WITH_BOTH: beam.gain(SECOND, FIRST), WITH_SECOND: beam.gain(SECOND), EMPTY: 0.0})


def test_a_word_that_ended_in_two_ways_is_one_history() -> None:
    """If one of the ways is likely, both have the gain."""
    beam = Beam()
    ways: list[Row] = [((EMPTY, FIRST), WITH_FIRST, 0.01), ((EMPTY, FIRST), WITH_FIRST, 1.0), (EMPTY, EMPTY, 0.5)]
    assert beam.follow(ways) == pytest.approx({WITH_FIRST: beam.gain(FIRST), EMPTY: 0.0})
    first, second, third, _ = beam.masses()
    assert sorted([second / first, third / first]) == pytest.approx(sorted([0.01, 0.5 / math.exp(beam.gain(FIRST))]))


def test_without_a_floor_all_words_are_scored_at_once() -> None:
    """Without a floor, the words of all hypotheses are scored."""
    beam = Beam(floor=0.0)
    found = beam.follow([((EMPTY, SECOND), WITH_SECOND, 1e-9), (EMPTY, EMPTY, 1.0)])
    assert found == pytest.approx({WITH_SECOND: beam.gain(SECOND), EMPTY: 0.0})


def test_contexts_live_as_long_as_their_rows() -> None:
    """A context whose rows have died is used again, and a new segment begins with the one that all share."""
    beam = Beam()
    beam.follow([((EMPTY, FIRST), WITH_FIRST, 1.0)])
    for _ in range(50):
        beam.follow([((WITH_FIRST, SECOND), WITH_BOTH, 1.0)])
        beam.follow([((WITH_BOTH, FIRST), WITH_FIRST, 1.0)])
    assert len(beam.rescoring._contexts) <= 4
    beam.rescoring.reset(0)
    assert sum(context is not None for context in beam.rescoring._contexts) == 1


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


def two_slots() -> NeuralRescoring:
    """Two slots without words; the second one has a past whose context is not made yet."""
    beam = Beam()
    slots = NeuralRescoring(beam.rescorer, OPTIONS, 2)
    for slot in (0, 1):
        slots.reset(slot)
    slots.reserve([1], 1)
    slots.arrays.pasts[1, 1] = np.zeros((), PAST)
    slots.arrays.pasts[1, 1]["word"], slots.arrays.pasts[1, 1]["context"] = FIRST, NO_CONTEXT
    slots.arrays.used[1], slots.arrays.rows[1] = 2, 1
    return slots


def test_a_slot_that_is_reset_while_the_pasts_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may reset a slot while those of a batch get more room: it begins without words then."""
    slots = two_slots()
    slots.arrays.pasts[1, 0]["gain"] = 1.0
    work_while_growing(monkeypatch, rescoring, slots, lambda: slots.reserve([0], more=8), lambda: slots.reset(1))
    assert slots.arrays.used[1] == 1
    assert slots.arrays.pasts[1, 0] == np.zeros((), PAST)


def test_a_context_that_is_made_while_the_pasts_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may score the end of a segment meanwhile: the slot keeps the contexts that were made for it."""
    slots = two_slots()
    work_while_growing(
        monkeypatch,
        rescoring,
        slots,
        lambda: slots.reserve([0], more=8),
        lambda: assert_scored(slots),
    )
    assert slots.arrays.pasts[1, 1]["context"] != NO_CONTEXT


def assert_scored(slots: NeuralRescoring) -> None:
    [gain] = slots.last_gains(1, [(0, SECOND)])
    assert math.isfinite(gain)
