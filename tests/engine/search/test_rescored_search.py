"""The beam search with a neural language model that compares the alternatives where a segment ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from streamer.engine.language.neural_model import NeuralModel
from streamer.engine.language.rescoring import Rescorer
from streamer.engine.search.beam_options import BeamOptions
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.search.search import HypothesisWord
from tests.engine.tiny_language import UNITS, Tongue, emissions

OPTIONS = BeamOptions(
    beam=12, tokens=3, endings=12, word_bonus=0.3, rescored=5, neural_share=0.7, neural_weight=1.5,
    neural_end_weight=0.5,
)  # fmt: skip


def rescorer(tongue: Tongue) -> Rescorer:
    """A neural model of these words with random weights, which are large, so that it prefers some words."""
    torch.manual_seed(1)
    model = NeuralModel(len(tongue.model.words), 6, 5, tongue.model.vocabulary).eval()
    with torch.no_grad():
        for part in model.parameters():
            part.mul_(4)
    return Rescorer(model, tongue.model)


def heard(tongue: Tongue, seed: int, options: BeamOptions, judge: Rescorer | None, frames: int = 30) -> BeamSearch:
    """A search that has read some frames."""
    search = BeamSearch(tongue.lexicon, tongue.model, UNITS, 1, options, rescorer=judge)
    search.advance([0], {"phones": emissions(seed, 1, frames)})
    return search


def texts(words: tuple[HypothesisWord, ...]) -> list[str]:
    """The texts of the words."""
    return [word.text for word in words]


@pytest.mark.parametrize("seed", range(10))
def test_the_best_alternatives_get_the_order_of_their_scores(seed: int) -> None:
    """Score and gain add up; the others follow in their order; the first is that of finish, with its times."""
    tongue = Tongue(seed)
    judge = rescorer(tongue)
    search = heard(tongue, seed, OPTIONS, judge)
    ranking = search.ranking(0)
    gains = [judge.compare([], [texts(words)])[0].gain(0.7, 1.5, 0.5) for words, _ in ranking[: OPTIONS.rescored]]
    totals = [score + gain for (_, score), gain in zip(ranking, gains, strict=False)]
    order = sorted(range(len(totals)), key=lambda number: -totals[number])
    wanted = [texts(ranking[number][0]) for number in order]
    found = search.alternatives(0, 1000)
    assert [texts(words) for words, _ in found[: len(wanted)]] == wanted
    assert [texts(words) for words, _ in found[len(wanted) :]] == [texts(words) for words, _ in ranking[len(wanted) :]]
    assert search.finish([0])[0].words == found[0][0]
    shares = [share for _, share in found]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0)
    times = {tuple(texts(words)): [(word.start, word.end) for word in words] for words, _ in ranking}
    assert all(times[tuple(texts(words))] == [(word.start, word.end) for word in words] for words, _ in found)


def test_it_changes_words_but_none_that_were_stable() -> None:
    """Another alternative is chosen now and then; all of them begin with the stable words."""
    changed = stable = 0
    for seed in range(20):
        tongue = Tongue(seed)
        search = heard(tongue, seed, OPTIONS, rescorer(tongue))
        shown = search.advance([0], {"phones": emissions(100 + seed, 1, 1)})[0]
        [last] = search.finish([0])
        assert texts(last.words)[: shown.stable] == texts(shown.words)[: shown.stable]
        changed += texts(last.words) != texts(search.ranking(0)[0][0])
        stable += shown.stable
    assert changed
    assert stable


@pytest.mark.parametrize("seed", range(5))
def test_without_weight_nothing_changes(seed: int) -> None:
    """Equal gains leave the order and the probabilities as the search has them."""
    tongue = Tongue(seed)
    options = replace(OPTIONS, neural_weight=0.0, neural_end_weight=0.0)
    with_model, without = heard(tongue, seed, options, rescorer(tongue)), heard(tongue, seed, options, None)
    assert with_model.alternatives(0, 1000) == without.alternatives(0, 1000)


def test_company_changes_nothing() -> None:
    """A stream gets the same words and probabilities, to the last bit, alone and with others."""
    tongue = Tongue(2)
    judge = rescorer(tongue)
    shared = BeamSearch(tongue.lexicon, tongue.model, UNITS, 4, OPTIONS, rescorer=judge)
    log_probs = torch.cat([emissions(seed, 1, 30) for seed in range(4)])
    shared.advance(range(4), {"phones": log_probs})
    together = shared.finish(range(4))
    for slot in range(4):
        alone = heard(tongue, slot, OPTIONS, judge)
        assert alone.finish([0])[0] == together[slot]
