"""Searches on cached emissions: their error rates by corpus and half, and tuning that finds the best weights."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.base.limits import WHOLE_MS
from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.acoustics.encoder_config import CtcHead, MoonshineConfig
from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.engine.search.search import BeamOptions
from tests.workshop.search.clear_speech import WAYS, said
from workshop.acoustic import units
from workshop.acoustic.batches import TAIL_SAMPLES, padded
from workshop.data.corpus import Corpus, CorpusError, Utterance, write_corpus
from workshop.search.trials import (
    CHARACTERS_HEAD,
    HEAD,
    error_rates,
    halves,
    mean_over_corpora,
    read_emissions,
    run_beam,
    tune,
)


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


@pytest.mark.parametrize(("pooled", "step_ms", "frames"), [(2, 336, 7), (1, 312, 13)])
def test_emissions_are_those_of_the_steps_of_the_model(tmp_path: Path, pooled: int, step_ms: int, frames: int) -> None:
    """A usual step becomes that of a model with other frames, and both are one file. Another one is refused."""
    names = {HEAD: units.PHONE_UNITS, CHARACTERS_HEAD: units.CHARACTERS}
    heads = tuple(CtcHead(head, 1, len(own)) for head, own in names.items())
    shape = MoonshineConfig(heads, width=16, layers=1, heads=2, feedforward=16, rotated=8, pooled=pooled)
    torch.manual_seed(0)
    AcousticNetwork(ModelDescription("test", shape, names, (24 * pooled, step_ms))).save(tmp_path)
    samples = np.random.default_rng(0).integers(-900, 900, 16_000).astype(np.int16)
    write_corpus(tmp_path, "dev", [(Utterance("u", 0, 0, "x", "s", "a"), samples)])
    [one] = read_emissions(tmp_path, tmp_path, "dev", tmp_path / "cache")
    assert [path.name.split("-")[1] for path in (tmp_path / "cache").iterdir()] == [str(step_ms)] * 2
    model = AcousticNetwork.load(tmp_path)
    heard = padded(Corpus(tmp_path, "dev"), one.utterance, len(samples), model.frame_samples)
    count = (len(samples) + TAIL_SAMPLES) // model.frame_samples
    expected = model(heard[None], torch.tensor([count]), frames, shape.left_frames)[HEAD][0, :count]
    torch.testing.assert_close(one.emissions, expected)
    [whole] = read_emissions(tmp_path, tmp_path, "dev", tmp_path / "cache", WHOLE_MS)
    expected = model(heard[None], torch.tensor([count]), shape.whole_frames, shape.left_frames)[HEAD][0, :count]
    torch.testing.assert_close(whole.emissions, expected)
    with pytest.raises(CorpusError, match="no step of 500 ms"):
        read_emissions(tmp_path, tmp_path, "dev", tmp_path / "cache", 500)


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
