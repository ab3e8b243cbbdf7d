"""Running and tuning searches on kept emissions."""

from __future__ import annotations

import math

import pytest
import torch

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.search.beam_options import BeamOptions
from streamer.training.acoustic import units
from streamer.training.data.corpus import Utterance
from streamer.training.search.decoding import error_rates, halves, mean_over_corpora, run_beam, tune, whole_steps
from streamer.training.search.emissions import Spoken

WAYS = {"cat": "K AE T", "dog": "D AO G", "cats": "K AE T S", "a": "AH"}


def said(text: str, corpus: str = "one") -> Spoken:
    """An utterance whose phones are said clearly, two frames each and a boundary after every word."""
    named = [unit for word in text.split() for unit in [*WAYS[word].split(), units.BOUNDARY]]
    path = [units.PHONE_NUMBER[unit] for unit in named for _ in range(2)]
    emissions = torch.full((len(path), len(units.PHONE_UNITS)), -7.0)
    emissions[torch.arange(len(path)), path] = -0.05
    return Spoken(emissions, Utterance(text, 0, 0, corpus, "somebody", text))


@pytest.fixture(scope="module")
def language() -> LanguageModel:
    """Every word as likely as any other."""
    return LanguageModel.build(list(WAYS), {(word,): (math.log(0.25), 0.0) for word in WAYS})


@pytest.fixture(scope="module")
def lexicon(language: LanguageModel) -> Lexicon:
    """The words as they are pronounced."""
    spelled = {word: tuple(units.PHONE_NUMBER[phone] for phone in way.split()) for word, way in WAYS.items()}
    return Lexicon.build([(language.words.index(word), way) for word, way in spelled.items()], language.unigrams)


@pytest.mark.parametrize("streams", [1, 3, 8])
def test_every_utterance_is_searched(lexicon: Lexicon, language: LanguageModel, streams: int) -> None:
    """However many run at a time, each utterance gets its own words, in the order given."""
    spoken = [said(text) for text in ("a dog", "cats", "dog a cat", "a", "cat cats dog a", "dog")]
    trial = run_beam(spoken, lexicon, language, BeamOptions(), streams)
    assert trial.words == [one.words for one in spoken]
    assert [[word.text for word in words] for words in trial.placed] == trial.words
    assert trial.frames == sum(len(whole_steps(one.emissions)) for one in spoken)
    assert error_rates(spoken, trial.words) == {"one": 0.0, "all": 0.0}


def test_rates_count_every_corpus_alike() -> None:
    """Errors are counted by corpus; the mean takes a small corpus as seriously as a large one."""
    spoken = [said("a dog"), said("dog a", "other"), said("cat cat", "other")]
    rates = error_rates(spoken, [["a"], ["dog", "a"], ["cat", "cat"]])
    assert rates == {"all": pytest.approx(100 / 6), "one": 50.0, "other": 0.0}
    assert mean_over_corpora(rates) == 25.0


def test_halves_share_nothing() -> None:
    """Every utterance is in one of them, by its name alone; they are about as large."""
    spoken = [said(f"a {'dog ' * number}", corpus) for number in range(20) for corpus in ("one", "other")]
    first, second = halves(spoken)
    assert not {one.utterance.name for one in first} & {one.utterance.name for one in second}
    assert len(first) + len(second) == len(spoken)
    assert min(len(first), len(second)) >= 12
    assert [id(one) for one in halves(spoken[:7])[0]] == [id(one) for one in spoken[:7] if id(one) in map(id, first)]


def test_tuning_finds_the_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    """One weight after the other, by smaller and smaller steps, down to the best."""

    def judge(options: BeamOptions) -> float:
        distance = (options.language_weight - 1.7) ** 2 + (options.word_bonus + 2) ** 2
        return distance + (options.blank_penalty - 0.6) ** 2

    found = tune(judge, BeamOptions(language_weight=1.0, blank_penalty=1.0))
    assert found.language_weight == pytest.approx(1.7, abs=0.1)
    assert found.word_bonus == pytest.approx(-2.0, abs=0.2)
    assert found.blank_penalty == pytest.approx(0.6, abs=0.2)
    assert "language_weight" in capsys.readouterr().out
