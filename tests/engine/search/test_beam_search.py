"""The prefix beam against brute force: every word sequence, every pronunciation, every CTC path."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from streamer.engine.search.beam_search import AgreementShares, BeamSearch
from streamer.engine.search.search import BeamOptions, Hypothesis, HypothesisWord
from streamer.engine.waiting import finish
from tests.engine.tiny_language import BLANK, BOUNDARY, UNITS, WIDE, Tongue, emissions, enumerated

NARROW = BeamOptions(beam=8, tokens=3, endings=8, language_weight=0.7, word_bonus=0.3)


def search(tongue: Tongue, options: BeamOptions, slots: int = 1) -> BeamSearch:
    """Return a search in the tiny language."""
    return BeamSearch(tongue.lexicon, tongue.model, UNITS, slots, options)


def advance(beam: BeamSearch, slots: Sequence[int], log_probs: Tensor) -> list[Hypothesis]:
    """One step of emissions [slots, frames, units]."""
    return beam.advance(slots, {"phones": log_probs})


def texts(hypothesis: Hypothesis) -> tuple[str, ...]:
    """Return the texts of the words."""
    return tuple(word.text for word in hypothesis.words)


@pytest.mark.parametrize("seed", range(16))
def test_a_wide_beam_is_exact(seed: int) -> None:
    """All hypotheses have the words and scores that enumeration gives, best first."""
    tongue, frames = Tongue(seed, words=3), 5 + seed % 2
    log_probs = emissions(seed, 1, frames)
    beam = search(tongue, WIDE)
    advance(beam, [0], log_probs)
    wanted = enumerated(tongue, log_probs[0], WIDE, longest=(frames + 1) // 2)
    ranking = beam.ranking(0)
    found = {tuple(word.text for word in words): score for words, score in ranking}
    assert found == pytest.approx(wanted, rel=0, abs=1e-4)
    assert [score for _, score in ranking] == sorted(found.values(), reverse=True)
    assert wanted[texts(beam.finish([0])[0])] == pytest.approx(max(wanted.values()), abs=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_any_split_into_steps_is_the_same(seed: int) -> None:
    """Reading in one step and reading frame by frame give the same words and scores."""
    tongue, dice = Tongue(seed), random.Random(seed)
    log_probs = emissions(seed, 1, 40)
    whole, split = search(tongue, NARROW), search(tongue, NARROW)
    wanted = advance(whole, [0], log_probs)
    start = 0
    while start < 40:
        size = dice.randint(1, 9)
        found = advance(split, [0], log_probs[:, start : start + size])
        start += size
    assert [texts(found[0]), found[0].running] == [texts(wanted[0]), wanted[0].running]
    for one, other in zip(whole.ranking(0), split.ranking(0), strict=True):
        assert [word.text for word in one[0]] == [word.text for word in other[0]]
        assert one[1] == pytest.approx(other[1], abs=1e-6)


def test_streams_do_not_know_of_each_other() -> None:
    """In a batch of streams of different ages, in used slots, each stream gets the same results as alone."""
    tongue, dice = Tongue(1), random.Random(1)
    streams = {slot: emissions(100 + slot, 1, 60) for slot in range(7)}
    shared = search(tongue, NARROW, slots=7)
    advance(shared, range(7), emissions(5, 7, 11))
    ages = dict.fromkeys(streams, 0)
    shared.reset([6, 2, 0, 1, 3, 4, 5])
    while min(ages.values()) < 60:
        slots = [slot for slot in streams if ages[slot] < 60 and dice.random() < 0.6]
        if slots:
            advance(shared, slots, torch.cat([streams[slot][:, ages[slot] : ages[slot] + 4] for slot in slots]))
            ages |= {slot: ages[slot] + 4 for slot in slots}
    for slot, log_probs in streams.items():
        alone = search(tongue, NARROW)
        for start in range(0, 60, 4):
            advance(alone, [0], log_probs[:, start : start + 4])
        for (words, score), (same, wanted) in zip(shared.ranking(slot), alone.ranking(0), strict=True):
            assert [(w.text, w.start, w.end) for w in words] == [(w.text, w.start, w.end) for w in same]
            assert score == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_stable_words_stay(seed: int) -> None:
    """Once all hypotheses share a word, every later hypothesis begins with it, also the last one."""
    tongue = Tongue(seed)
    log_probs = emissions(seed, 1, 80, sharpness=4.0)
    beam = search(tongue, NARROW)
    stable: tuple[str, ...] = ()
    seen = 0
    for frame in range(80):
        [found] = advance(beam, [0], log_probs[:, frame : frame + 1])
        [last] = beam.finish([0])
        for hypothesis in (found, last):
            assert texts(hypothesis)[: len(stable)] == stable
        assert found.stable >= len(stable)
        stable = texts(found)[: found.stable]
        seen = max(seen, len(stable))
        ends = [word.end for word in found.words]
        assert all(word.start < word.end <= frame + 1 for word in found.words)
        assert ends == sorted(ends)
    assert seen > 1


def test_finishing_changes_nothing() -> None:
    """Asking for the final hypothesis at any time does not change how the search goes on."""
    tongue, log_probs = Tongue(3), emissions(3, 1, 30)
    asked, quiet = search(tongue, NARROW), search(tongue, NARROW)
    for frame in range(30):
        found = advance(asked, [0], log_probs[:, frame : frame + 1])
        asked.finish([0])
        wanted = advance(quiet, [0], log_probs[:, frame : frame + 1])
        assert found == wanted


@pytest.mark.parametrize("seed", range(5))
def test_alternatives_are_the_ranking(seed: int) -> None:
    """Alternatives are different texts, likeliest first, with their probabilities; the first is that of finish."""
    beam = search(Tongue(seed), NARROW)
    advance(beam, [0], emissions(seed, 1, 24))
    ranking = beam.ranking(0)
    found = beam.alternatives(0, 1000)
    assert [[word.text for word in words] for words, _ in found] == [[w.text for w in words] for words, _ in ranking]
    assert len({texts(Hypothesis(words, 0)) for words, _ in found}) == len(found) > 3
    assert sum(probability for _, probability in found) == pytest.approx(1)
    for (_, score), (_, probability) in zip(ranking, found, strict=True):
        assert math.log(probability / found[0][1]) == pytest.approx(score - ranking[0][1])
    assert beam.alternatives(0, 3) == found[:3]
    assert found[0][0] == beam.finish([0])[0].words
    assert search(Tongue(seed), NARROW).alternatives(0, 2) == [((), 1.0)]


def test_a_word_s_share_remembers_what_was_held_possible() -> None:
    """A word that was ever in doubt keeps a share below 1, even once it is settled; other words have 1."""
    settled, undoubted = [], []
    for seed in range(5):
        beam, sure = search(Tongue(seed), NARROW), search(Tongue(seed), NARROW)
        for step in emissions(seed, 1, 64).split(4, dim=1):
            advance(beam, [0], step)
        for step in emissions(seed, 1, 64, sharpness=60.0).split(4, dim=1):
            advance(sure, [0], step)
        [final], [plain] = beam.finish([0]), sure.finish([0])
        assert all(0 < word.share <= 1 for word in (*final.words, *plain.words))
        settled += [word.share for word in final.words[: final.stable]]
        undoubted += [word.share for word in plain.words]
    assert min(settled) < 0.9
    assert sorted(undoubted)[len(undoubted) // 2] > 0.99


@pytest.mark.parametrize("seed", range(4))
def test_words_are_settled_by_age(seed: int) -> None:
    """Words that ended long enough ago are stable, and nothing that was stable changes."""
    tongue, log_probs = Tongue(seed), emissions(seed, 2, 80)
    beam, free = search(tongue, NARROW, 2), search(tongue, NARROW, 2)
    finish(beam.prepare(1, [], 6))
    stable: tuple[str, ...] = ()
    earlier = 0
    for frame in range(80):
        step = log_probs[:, frame : frame + 1]
        [other, found] = advance(beam, [0, 1], step)
        [same, later] = advance(free, [0, 1], step)
        assert other == same
        whole = found.words[: beam._histories.arrays.shown[1]["words"]]
        old = [word for word in whole if word.end <= frame + 1 - 6]
        assert found.stable >= len(old)
        assert texts(found)[: len(stable)] == stable
        stable = texts(found)[: found.stable]
        assert all(texts(Hypothesis(words, 0))[: len(stable)] == stable for words, _ in beam.alternatives(1, 1000))
        earlier += found.stable > later.stable
    assert earlier
    assert beam.ranking(0) == free.ranking(0)


def test_a_word_needs_no_boundary_at_the_end() -> None:
    """finish has a word whose last phone is in the last frame, and leaves out a word that is incomplete."""
    tongue = Tongue(2)
    name, way = next((name, way) for name, ways in tongue.pronunciations.items() for way in ways if len(way) == 1)
    log_probs = torch.full((1, 4, len(UNITS)), -12.0)
    for frame, unit in enumerate((BLANK, way[0], BOUNDARY, BLANK)):
        log_probs[0, frame, unit] = -0.001
    beam = search(tongue, NARROW)
    advance(beam, [0], log_probs[:, :2])
    without = beam.finish([0])[0]
    advance(beam, [0], log_probs[:, 2:])
    spoken = beam.finish([0])[0]
    alike = {other for other, found in tongue.pronunciations.items() if way in found}
    assert name in alike
    assert [set(texts(found)) <= alike and len(found.words) == 1 for found in (without, spoken)] == [True, True]
    assert (spoken.words[0].start, spoken.words[0].end) == (1, 2)


def test_nothing_heard_is_no_word() -> None:
    """A new segment, and one of blanks only, have no words and no running word."""
    beam = search(Tongue(0), NARROW)
    assert beam.finish([0]) == [Hypothesis((), 0)]
    blanks = torch.full((1, 50, len(UNITS)), -9.0)
    blanks[:, :, BLANK] = -0.001
    assert texts(advance(beam, [0], blanks)[0]) == ()
    assert texts(beam.finish([0])[0]) == ()


def with_sure_blanks() -> Tensor:
    """Return emissions of three streams: none, half and nearly all of the frames are blank only."""
    dice = random.Random(4)
    log_probs = emissions(8, 3, 64)
    quiet = torch.tensor([[dice.random() < share for _ in range(64)] for share in (0.0, 0.5, 0.9)])
    quiet[2, 16:40] = True
    log_probs[quiet] = torch.tensor([1.0, 1e-30, 1e-30, 1e-30, 1e-30]).log()
    return log_probs


def test_sure_blanks_are_left_out() -> None:
    """Skipping the frames that are blank only changes nothing, whichever streams of a batch have them."""
    log_probs = with_sure_blanks()
    one, other = (search(Tongue(4), replace(NARROW, blank_ceiling=sure), 3) for sure in (0.9999, 2.0))
    for start in range(0, log_probs.shape[1], 8):
        step = log_probs[:, start : start + 8]
        for found, wanted in zip(advance(one, range(3), step), advance(other, range(3), step), strict=True):
            assert (found.stable, found.running) == (wanted.stable, wanted.running)
            for word, same in zip(found.words, wanted.words, strict=True):
                assert word.confidence == pytest.approx(same.confidence, rel=1e-12)
                assert word == replace(same, confidence=word.confidence)
    for slot in range(3):
        for (words, score), (others, expected) in zip(one.ranking(slot), other.ranking(slot), strict=True):
            assert [word.text for word in words] == [word.text for word in others]
            assert score == pytest.approx(expected, abs=1e-6)


def test_an_hour_does_not_overflow() -> None:
    """In a segment far longer than any real one scores stay finite and memory stays bounded."""
    tongue = Tongue(2)
    beam = search(tongue, NARROW)
    for number in range(25):
        advance(beam, [0], emissions(number, 1, 100, sharpness=4.0))
    assert all(math.isfinite(score) for _, score in beam.ranking(0))
    assert beam.finish([0])[0].words


def test_a_head_without_boundary_is_refused() -> None:
    """A head without a unit for word boundaries is refused."""
    tongue = Tongue(0)
    with pytest.raises(ValueError, match="boundary"):
        BeamSearch(tongue.lexicon, tongue.model, ["<blank>", "a", "b"], 1)


def test_options_are_checked(tmp_path: Path) -> None:
    """A file with unknown options or impossible values is refused with the reason."""
    path = tmp_path / "search.json"
    for text, wrong in (
        ('{"beam": 0}', "beam"),
        ('{"beam": 1.5}', "beam"),
        ('{"width": 3}', "width"),
        ("[]", "object"),
        ('{"word_bonus": "much"}', "word_bonus"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=wrong):
            BeamOptions.load(path)
    path.write_text('{"beam": 5, "word_bonus": 1}')
    assert BeamOptions.load(path) == BeamOptions(beam=5, word_bonus=1)


ONE, LATER, OTHER = HypothesisWord("one", 0, 5, 0.9), HypothesisWord("one", 2, 6, 0.9), HypothesisWord("won", 0, 5, 0.9)
FAR = HypothesisWord("one", 40, 45, 0.9)


def test_a_share_is_the_part_of_the_mass_that_has_the_word_about_there() -> None:
    """With another start it is still the same word; with another text or place it is not."""
    assert AgreementShares([((ONE,), 1.0), ((LATER,), 1.0), ((OTHER,), 1.0), ((FAR,), 1.0)]).of(ONE) == 0.5
    shares = AgreementShares([((ONE, FAR), 3.0), ((ONE,), 1.0)])
    assert [shares.of(ONE), shares.of(FAR), shares.of(OTHER)] == [1.0, 0.75, 0.0]
    assert AgreementShares([]).of(ONE) == 0.0
