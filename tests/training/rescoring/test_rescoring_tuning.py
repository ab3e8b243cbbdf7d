"""How much the neural language model counts is found on alternatives that are kept."""

from __future__ import annotations

import math

import torch

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.language.neural_model import NeuralModel
from streamer.engine.language.rescoring import BothScores, Rescorer
from streamer.engine.search.beam_options import BeamOptions
from streamer.training.acoustic import units
from streamer.training.rescoring.rescoring_tuning import (
    Alternatives,
    ScoredSet,
    score_alternatives,
    tune_rescoring,
)
from tests.training.search.clear_speech import WAYS, said


def alternatives(lead: float, neural: float, ngram: float) -> Alternatives:
    """A wrong text that leads by so much, and the right one, with these scores of their words."""
    ends = torch.tensor(0.0)
    wrong = BothScores(torch.stack((torch.tensor(-5.0), ends)), torch.stack((torch.tensor(-5.0), ends)))
    right = BothScores(torch.stack((torch.tensor(neural), ends)), torch.stack((torch.tensor(ngram), ends)))
    return Alternatives([["dog"], ["cat"]], [lead, 0.0], [wrong, right])


def test_tuning_lets_the_better_model_count() -> None:
    """Where the neural model is right, its weight grows until the right text is chosen."""
    scored = ScoredSet([said("cat")] * 2, [alternatives(0.2, -2.0, -4.0), alternatives(0.5, -2.0, -4.0)], 0.0)
    start = BeamOptions(neural_share=0.3, neural_weight=0.1, neural_end_weight=0.0)
    assert scored.errors(start)["all"] == 100.0
    assert scored.least_errors() == 0.0
    told: list[str] = []
    best = tune_rescoring(scored, start, told.append)
    assert scored.errors(best)["all"] == 0.0
    assert 0 < best.neural_share <= 1
    assert all("neural_weight" in line for line in told)


def test_the_alternatives_of_a_search_are_scored() -> None:
    """The first of each is what the search says, and the neural model can choose another one."""
    language = LanguageModel.build(list(WAYS), {(word,): (math.log(0.25), 0.0) for word in WAYS})
    spelled = {word: tuple(units.PHONE_NUMBER[phone] for phone in way.split()) for word, way in WAYS.items()}
    lexicon = Lexicon.build([(language.words.index(word), way) for word, way in spelled.items()], language.unigrams)
    torch.manual_seed(0)
    rescorer = Rescorer(NeuralModel(len(language.words), 4, 4, language.vocabulary).eval(), language)
    spoken = [said("a dog"), said("cats dog a")]
    scored = score_alternatives(spoken, lexicon, language, rescorer, BeamOptions(rescored=4), 2)
    assert [found.texts[0] for found in scored.alternatives] == [one.words for one in spoken]
    assert all(1 < len(found.texts) <= 4 for found in scored.alternatives)
    assert scored.errors(BeamOptions(neural_weight=0.0, neural_end_weight=0.0))["all"] == 0.0
    assert scored.cost_ms >= 0
