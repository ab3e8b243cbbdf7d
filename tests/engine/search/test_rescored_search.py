"""The beam search with a neural language model that rescores words in the step in which they end."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from streamer.engine.language.language_model import SENTENCE_END
from streamer.engine.search import beam_search
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.search.rescoring import Rescorer
from streamer.engine.search.search import BeamOptions, Hypothesis, HypothesisWord
from tests.engine.tiny_language import UNITS, WIDE, Tongue, emissions, enumerated, neural_model

OPTIONS = BeamOptions(
    beam=12,
    tokens=3,
    endings=12,
    word_bonus=0.3,
    rescored=5,
    neural_share=0.7,
    neural_weight=1.5,
    neural_end_weight=0.5,
)
EXACT = replace(WIDE, rescored=600, neural_share=0.7, neural_weight=1.5, neural_end_weight=0.5)


def rescorer(tongue: Tongue) -> Rescorer:
    """Return a rescorer for this language."""
    return Rescorer(neural_model(tongue), tongue.model)


def made(tongue: Tongue, options: BeamOptions, judge: Rescorer | None, slots: int = 1) -> BeamSearch:
    """Return a search in the tiny language."""
    return BeamSearch(tongue.lexicon, tongue.model, UNITS, slots, options, rescorer=judge)


def heard(tongue: Tongue, seed: int, options: BeamOptions, judge: Rescorer | None, step: int = 5) -> BeamSearch:
    """Return a search that has read thirty frames in steps."""
    search = made(tongue, options, judge)
    for part in emissions(seed, 1, 30).split(step, 1):
        search.advance([0], {"phones": part})
    return search


def texts(words: tuple[HypothesisWord, ...]) -> tuple[str, ...]:
    """Return the texts of the words."""
    return tuple(word.text for word in words)


def gain(tongue: Tongue, judge: Rescorer, words: tuple[str, ...]) -> float:
    """Return the gain of these words, if they are a sentence."""
    context, total = judge.start(), 0.0
    for word in words:
        number = tongue.model.words.index(word)
        total += 1.5 * judge.gains([(context, number)], 0.7)[0]
        context = judge.after(context, number)
    return total + 0.5 * judge.gains([(context, SENTENCE_END)], 0.7)[0]


@pytest.mark.parametrize("seed", range(16))
def test_a_wide_beam_is_exact(seed: int) -> None:
    """Every word counts once, whichever of the merged paths ended it in which step."""
    tongue, frames, dice = Tongue(seed, words=3), 6 + seed % 2, random.Random(seed)
    judge, log_probs = rescorer(tongue), emissions(seed, 1, frames)
    search, start = made(tongue, EXACT, judge), 0
    while start < frames:
        step = dice.randint(1, 3)
        search.advance([0], {"phones": log_probs[:, start : start + step]})
        start += step
    plain = enumerated(tongue, log_probs[0], EXACT, longest=(frames + 1) // 2)
    wanted = {words: score + gain(tongue, judge, words) for words, score in plain.items()}
    found = {texts(words): score for words, score in search.ranking(0)}
    assert found == pytest.approx(wanted, rel=0, abs=1e-4)
    assert texts(search.finish([0])[0].words) == max(wanted, key=lambda words: wanted[words])


@pytest.mark.parametrize("seed", range(4))
def test_alternatives_are_the_ranking(seed: int) -> None:
    """The first alternative is that of `finish`; the probabilities fall, and their sum is one."""
    search = heard(Tongue(seed), seed, OPTIONS, rescorer(Tongue(seed)))
    found = search.alternatives(0, 1000)
    assert [texts(words) for words, _ in found] == [texts(words) for words, _ in search.ranking(0)]
    assert search.finish([0])[0].words == found[0][0]
    shares = [share for _, share in found]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(4))
def test_unlikely_ways_to_end_are_no_alternatives(seed: int) -> None:
    """With a floor, the likely alternatives are those of the whole ranking, in its order, and there are fewer."""
    search = heard(Tongue(seed), seed, replace(OPTIONS, beam=40, rescoring_floor=0.03), rescorer(Tongue(seed)))
    ranking, found = search.ranking(0), search.alternatives(0, 1000)
    assert 3 <= len(found) < len(ranking) / 2
    assert [texts(words) for words, _ in found[:3]] == [texts(words) for words, _ in ranking[:3]]
    for (_, share), (_, score) in zip(found[:3], ranking[:3], strict=True):
        assert share / found[0][1] == pytest.approx(math.exp(score - ranking[0][1]), rel=1e-3)


def test_it_changes_words_but_none_that_were_stable() -> None:
    """Rescoring changes some words, but none that were stable."""
    changed = stable = 0
    for seed in range(8):
        tongue = Tongue(seed)
        search = made(tongue, OPTIONS, rescorer(tongue))
        shown: list[Hypothesis] = []
        for part in emissions(seed, 1, 30).split(5, 1):
            shown += search.advance([0], {"phones": part})
        [last] = search.finish([0])
        for earlier in shown:
            assert texts(last.words)[: earlier.stable] == texts(earlier.words)[: earlier.stable]
        changed += texts(last.words) != texts(heard(tongue, seed, OPTIONS, None).finish([0])[0].words)
        stable += shown[-1].stable
    assert changed
    assert stable


@pytest.mark.parametrize("seed", range(5))
def test_without_weight_nothing_changes(seed: int) -> None:
    """Gains of zero leave the order and the probabilities as they are."""
    tongue = Tongue(seed)
    options = replace(OPTIONS, neural_weight=0.0, neural_end_weight=0.0)
    found = heard(tongue, seed, options, rescorer(tongue)).alternatives(0, 1000)
    wanted = heard(tongue, seed, options, None).alternatives(0, 1000)
    assert [texts(words) for words, _ in found] == [texts(words) for words, _ in wanted]
    assert [share for _, share in found] == pytest.approx([share for _, share in wanted])


def test_company_changes_nothing() -> None:
    """A stream gets the same words, times and probabilities, to the last bit, alone and with others."""
    tongue = Tongue(2)
    judge, slots = rescorer(tongue), range(23)
    shared = made(tongue, OPTIONS, judge, slots=23)
    for part in torch.cat([emissions(seed, 1, 30) for seed in slots]).split(5, 1):
        shared.advance(slots, {"phones": part})
    for slot in slots:
        alone = heard(tongue, slot, OPTIONS, judge)
        for (words, score), (same, wanted) in zip(shared.ranking(slot), alone.ranking(0), strict=True):
            assert [(word.text, word.start, word.end) for word in words] == [(w.text, w.start, w.end) for w in same]
            assert score == wanted


def test_a_slot_that_is_used_again_knows_nothing_of_its_former_words() -> None:
    """A slot that is used again begins without words."""
    tongue = Tongue(3)
    judge = rescorer(tongue)
    used = heard(tongue, 8, OPTIONS, judge)
    used.reset([0])
    for part in emissions(3, 1, 30).split(5, 1):
        used.advance([0], {"phones": part})
    assert used.alternatives(0, 1000) == heard(tongue, 3, OPTIONS, judge).alternatives(0, 1000)


@pytest.mark.parametrize("seed", range(4))
def test_gains_of_zero_leave_what_is_shown(seed: int) -> None:
    """The best hypothesis of every step, with the word that has not ended, is that of a search without rescoring."""
    tongue = Tongue(seed)
    options = replace(OPTIONS, neural_weight=0.0, neural_end_weight=0.0)
    rescored, plain = made(tongue, options, rescorer(tongue)), made(tongue, options, None)
    for part in emissions(seed, 1, 60).split(5, 1):
        [found], [wanted] = (search.advance([0], {"phones": part}) for search in (rescored, plain))
        assert (texts(found.words), found.stable, found.running) == (texts(wanted.words), wanted.stable, wanted.running)


def test_where_nothing_changes_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a stream that goes on without a change, the hypothesis is the former one, and no word is made again."""
    made_words = list[str]()

    class NotedWord(HypothesisWord):
        def __init__(self, text: str, *values: Any) -> None:
            made_words.append(text)
            super().__init__(text, *values)

    tongue = Tongue(1)
    search = made(tongue, OPTIONS, rescorer(tongue), slots=2)
    monkeypatch.setattr(beam_search, "HypothesisWord", NotedWord)
    spoken, silence = emissions(1, 2, 30), torch.full((2, 5, len(UNITS)), -40.0)
    silence[:, :, 0] = 0.0
    for part in spoken.split(5, 1):
        shown = search.advance([0, 1], {"phones": part})
    assert made_words
    # The last words of the segment are told in this step, and from then on all is as it was.
    shown = search.advance([0, 1], {"phones": silence})
    made_words.clear()
    for _ in range(3):
        again = search.advance([0, 1], {"phones": silence})
        assert all(one is other for one, other in zip(again, shown, strict=True))
    assert not made_words
    [changed, same] = search.advance([0, 1], {"phones": torch.cat([spoken[:1, 5:10], silence[:1]])})
    assert changed is not shown[0]
    assert same is shown[1]
