"""Running searches on cached emissions."""

from __future__ import annotations

import math

import pytest

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.training.acoustic import units
from streamer.training.search.corpus_errors import error_rates
from streamer.training.search.search_trials import run_beam
from tests.training.search.clear_speech import WAYS, said


@pytest.fixture(scope="module")
def language() -> LanguageModel:
    """Return a language model in which all words have the same probability."""
    return LanguageModel.build(list(WAYS), {(word,): (math.log(0.25), 0.0) for word in WAYS})


@pytest.fixture(scope="module")
def lexicon(language: LanguageModel) -> Lexicon:
    """Return a lexicon of these words."""
    spelled = {word: tuple(units.PHONE_NUMBER[phone] for phone in way.split()) for word, way in WAYS.items()}
    return Lexicon.build([(language.words.index(word), way) for word, way in spelled.items()], language.unigrams)


@pytest.mark.parametrize("streams", [1, 3, 8])
def test_every_utterance_is_searched(lexicon: Lexicon, language: LanguageModel, streams: int) -> None:
    """Each utterance gets its own words, in the given order, however many run at a time."""
    spoken = [said(text) for text in ("a dog", "cats", "dog a cat", "a", "cat cats dog a", "dog")]
    trial = run_beam(spoken, lexicon, language, BeamOptions(), streams)
    assert trial.words == [one.words for one in spoken]
    assert error_rates(spoken, trial.words) == {"one": 0.0, "all": 0.0}
