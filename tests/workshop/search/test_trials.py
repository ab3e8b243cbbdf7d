"""Searches on cached emissions: their error rates by corpus and half, and tuning that finds the best weights."""

from __future__ import annotations

import math

import pytest

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.search import BeamOptions
from tests.workshop.search.clear_speech import WAYS, said
from workshop.acoustic import units
from workshop.search.trials import error_rates, halves, mean_over_corpora, run_beam, tune


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


def test_rates_count_every_corpus_alike() -> None:
    """Errors are counted by corpus, and the mean counts small and large corpora equally."""
    spoken = [said("a dog"), said("dog a", "other"), said("cat cat", "other")]
    rates = error_rates(spoken, [["a"], ["dog", "a"], ["cat", "cat"]])
    assert rates == {"all": pytest.approx(100 / 6), "one": 50.0, "other": 0.0}
    assert mean_over_corpora(rates) == 25.0


def test_halves_share_nothing() -> None:
    """The name of an utterance decides its half, and both halves have about the same size."""
    spoken = [said(f"a {'dog ' * number}", corpus) for number in range(20) for corpus in ("one", "other")]
    first, second = halves(spoken)
    assert not {one.utterance.name for one in first} & {one.utterance.name for one in second}
    assert len(first) + len(second) == len(spoken)
    assert min(len(first), len(second)) >= 12
    assert [id(one) for one in halves(spoken[:7])[0]] == [id(one) for one in spoken[:7] if id(one) in map(id, first)]


def test_tuning_finds_the_bottom() -> None:
    """Weights are tuned one after another, in smaller and smaller steps, until the best is found."""

    def judge(options: BeamOptions) -> float:
        distance = (options.language_weight - 1.7) ** 2 + (options.word_bonus + 2) ** 2
        return distance + (options.blank_penalty - 0.6) ** 2

    told: list[str] = []
    found = tune(judge, BeamOptions(language_weight=1.0, blank_penalty=1.0), told.append)
    assert found.language_weight == pytest.approx(1.7, abs=0.1)
    assert found.word_bonus == pytest.approx(-2.0, abs=0.2)
    assert found.blank_penalty == pytest.approx(0.6, abs=0.2)
    assert all("language_weight" in line for line in told)
    assert told
