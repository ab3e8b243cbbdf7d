"""Hotwords in the beam search: exact scores, phrases, new words, and no effect on other streams."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import BEAM, LetterToSound
from streamer.engine.language.lexicon import WORD_COUNT, Lexicon, TrieTables
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.search.hotwords import CallerMemories, Pronouncer, Ways, words_of
from streamer.engine.search.search import BeamOptions, Hotword, Hypothesis
from streamer.engine.waiting import NotNow, Work, finish
from tests.engine.tiny_language import BOUNDARY, UNITS, Tongue, emissions, forward, spelling
from tests.project import BUNDLE

OPTIONS = BeamOptions(
    beam=900,
    tokens=3,
    endings=900,
    language_weight=0.7,
    word_bonus=0.3,
    blank_penalty=0.4,
    boundary_floor=0.0,
    blank_ceiling=2.0,
    hotword_bonus=1.5,
    hotword_floor=-2.5,
    hotword_lent=0.5,
)
NARROW = replace(OPTIONS, beam=8, endings=8)
NEW = {"ab": {(2, 3)}, "cb": {(3, 3), (4, 3)}}  # words that the lexicon lacks, and how they sound by their letters
LISTS = (
    [Hotword("wa"), Hotword("wb", 2.0)],
    [Hotword("ab", 1.5)],
    [Hotword("wa wb"), Hotword("cb wa", 0.5), Hotword("wb")],
    [Hotword("wa wb wa"), Hotword("wa wb", 0.7), Hotword("wa", 0.3)],
)


def search(tongue: Tongue, options: BeamOptions, slots: int = 1) -> BeamSearch:
    """Return a search in the tiny language, with a letter-to-sound model."""
    return BeamSearch(tongue.lexicon, tongue.model, UNITS, slots, options, letters=spelling())


def advance(beam: BeamSearch, slots: Sequence[int], log_probs: Tensor) -> list[Hypothesis]:
    """One step of emissions [slots, frames, units]."""
    return beam.advance(slots, {"phones": log_probs})


def texts(hypothesis: Hypothesis) -> tuple[str, ...]:
    """Return the texts of the words."""
    return tuple(word.text for word in hypothesis.words)


def earned(words: Sequence[str], phrases: Mapping[tuple[str, ...], float]) -> float:
    """Return the bonuses of these words by definition: at every word, the bonus of the best phrase that ends there."""
    total = 0.0
    for end in range(1, len(words) + 1):
        best = 0.0
        for phrase, bonus in phrases.items():
            if tuple(words[:end])[-len(phrase) :] == phrase:
                beginnings = [
                    phrases[phrase[:size]] * size for size in range(1, len(phrase)) if phrase[:size] in phrases
                ]
                best = max(best, bonus * len(phrase) - max(beginnings, default=0.0))
        total += best
    return total


def enumerated(
    tongue: Tongue, log_probs: Tensor, hotwords: Sequence[Hotword], longest: int
) -> dict[tuple[str, ...], float]:
    """Return the exact score of every word sequence that fits into these frames, with hotwords."""
    lowered = log_probs.clone()
    lowered[:, 0] -= OPTIONS.blank_penalty
    phrases = {tuple(hotword.text.split()): hotword.weight * OPTIONS.hotword_bonus for hotword in hotwords}
    ways = dict(tongue.pronunciations) | {word: NEW[word] for phrase in phrases for word in phrase if word in NEW}
    found = {}
    for count in range(longest + 1):
        for words in itertools.product(ways, repeat=count):
            labels = set()
            for way in itertools.product(*(ways[word] for word in words)):
                said = tuple(unit for units in way for unit in (*units, BOUNDARY))
                labels |= {said, said[:-1]}
            masses = [forward(lowered, labels_of) for labels_of in labels]
            mass = sum(math.exp(value) for value in masses if value > -math.inf)
            if mass:
                found[words] = math.log(mass) + said_score(tongue, words) + earned(words, phrases)
    return found


def said_score(tongue: Tongue, words: Sequence[str]) -> float:
    """Return the score of the language model and the word bonus. New words are unknown and have a fixed score."""
    numbers = [tongue.model.words.index(word) if word not in NEW else 0 for word in words]
    history = [*tongue.model.start, *numbers]
    total = OPTIONS.word_bonus * len(words)
    for place, (word, number) in enumerate(zip(words, numbers, strict=True)):
        known = float(tongue.model.score(history[place : place + 2], number))
        total += OPTIONS.language_weight * (OPTIONS.hotword_floor if word in NEW else known)
    return total


@pytest.mark.parametrize("hotwords", LISTS, ids=["words", "new", "phrases", "nested"])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_is_exact(seed: int, hotwords: list[Hotword]) -> None:
    """All hypotheses have the words and scores of enumeration: nothing counts twice, and all loans are taken back."""
    tongue, frames = Tongue(seed, words=2), 5 + seed % 2
    log_probs = emissions(seed, 1, frames)
    beam = search(tongue, OPTIONS)
    finish(beam.prepare(0, hotwords, 0))
    beam.reset([0])
    advance(beam, [0], log_probs)
    wanted = enumerated(tongue, log_probs[0], hotwords, longest=(frames + 1) // 2)
    ranking = beam.ranking(0)
    found = {tuple(word.text for word in words): score for words, score in ranking}
    assert found == pytest.approx(wanted, rel=0, abs=1e-3)
    assert texts(beam.finish([0])[0]) == max(wanted, key=lambda words: wanted[words])


def test_the_same_in_any_steps() -> None:
    """Steps of any size give the same words."""
    tongue, dice, log_probs = Tongue(5), random.Random(5), emissions(5, 1, 40)
    options = replace(NARROW, boundary_floor=0.05, blank_ceiling=0.9)
    whole, split = search(tongue, options), search(tongue, options)
    for beam in (whole, split):
        finish(beam.prepare(0, LISTS[2], 0))
        beam.reset([0])
    wanted = advance(whole, [0], log_probs)
    start = 0
    while start < 40:
        size = dice.randint(1, 9)
        found = advance(split, [0], log_probs[:, start : start + size])
        start += size
    assert [texts(found[0]), split.ranking(0)[0][1]] == [texts(wanted[0]), pytest.approx(whole.ranking(0)[0][1])]


def test_a_hotword_is_not_shown_where_it_does_not_count() -> None:
    """If only a hotword ends in the lexicon's trie, the word is still running: it counts in the stream's own trie."""
    tongue = Tongue(3)
    beam = search(tongue, NARROW)
    finish(beam.prepare(0, [Hotword(word) for word in tongue.pronunciations], 0))
    beam.reset([0])
    nodes, best = beam._expander._nodes.arrays, beam._beams.hypotheses[0, :1]
    best["start"], best["end"], best["start_mass"] = 2, 5, 1.0
    [ends] = nodes.table[: nodes.shared, WORD_COUNT].nonzero()
    for node in ends:
        best["node"] = node
        assert beam._shown(np.zeros(1, np.int64)) == [Hypothesis((), 0, (2, 5))]
    beam.release(0)
    [shown] = beam._shown(np.zeros(1, np.int64))
    assert all(word.text in tongue.pronunciations for word in shown.words)
    assert shown.words


def test_streams_without_hotwords_do_not_change() -> None:
    """A stream without hotwords is the same to the last bit beside streams that have some; each has only its own."""
    tongue, log_probs = Tongue(1), emissions(1, 4, 48)
    lists: tuple[list[Hotword], ...] = ([], [Hotword("ab", 3)], [], [Hotword("cb", 3)])
    shared = search(tongue, NARROW, slots=4)
    for slot, hotwords in enumerate(lists):
        finish(shared.prepare(slot, hotwords, 0))
    shared.reset(range(4))
    alone = [search(tongue, NARROW) for _ in lists]
    for beam, hotwords in zip(alone, lists, strict=True):
        finish(beam.prepare(0, hotwords, 0))
        beam.reset([0])
    for start in range(0, 48, 8):
        together = advance(shared, range(4), log_probs[:, start : start + 8])
        apart = [advance(beam, [0], log_probs[[slot], start : start + 8])[0] for slot, beam in enumerate(alone)]
        assert together == apart
    for slot, beam in enumerate(alone):
        assert shared.ranking(slot) == beam.ranking(0)
    said = [{word for words, _ in shared.ranking(slot) for word in texts(Hypothesis(words, 0))} for slot in range(4)]
    assert ["ab" in words for words in said] == [False, True, False, False]
    assert ["cb" in words for words in said] == [False, False, False, True]


def test_hotwords_live_as_long_as_their_stream() -> None:
    """A new segment keeps the hotwords; the next stream in the slot has none of them."""
    tongue, log_probs = Tongue(2), emissions(2, 1, 24)
    beam, fresh = search(tongue, NARROW), search(tongue, NARROW)
    finish(beam.prepare(0, [Hotword("ab", 5)], 0))
    rankings = []
    for _ in range(2):
        beam.reset([0])
        advance(beam, [0], log_probs)
        rankings.append(beam.ranking(0))
    assert rankings[0] == rankings[1]
    assert "ab" in {word.text for words, _ in rankings[0] for word in words}
    for _ in range(2):
        for one in (beam, fresh):
            finish(one.prepare(0, [Hotword("wa", 0)], 0))
            one.reset([0])
        assert advance(beam, [0], log_probs) == advance(fresh, [0], log_probs)
        assert beam.ranking(0) == fresh.ranking(0)


def test_slots_come_and_go() -> None:
    """Lists of any size take and free room in any order, and give what they give alone."""
    tongue, dice, log_probs = Tongue(3), random.Random(3), emissions(3, 1, 16)
    shared = search(tongue, NARROW, slots=5)
    syllables = ["".join(way) for way in itertools.product("abc", repeat=4)]
    for _ in range(12):
        slot = dice.randrange(5)
        hotwords = [Hotword(word, 2) for word in dice.sample(syllables, dice.choice([0, 1, 5, 60]))]
        alone = search(tongue, NARROW)
        for beam, where in ((shared, slot), (alone, 0)):
            finish(beam.prepare(where, hotwords, 0))
            beam.reset([where])
        assert advance(shared, [slot], log_probs) == advance(alone, [0], log_probs)
        assert shared.ranking(slot) == alone.ranking(0)


def test_what_is_lent_is_taken_back() -> None:
    """An incomplete phrase earns nothing, neither at the end of the text nor before another word."""
    tongue, log_probs = Tongue(0, words=2), emissions(0, 1, 6)
    plain, hot = search(tongue, OPTIONS), search(tongue, OPTIONS)
    finish(hot.prepare(0, [Hotword("wa wb", 4)], 0))
    hot.reset([0])
    for beam in (plain, hot):
        advance(beam, [0], log_probs)
    before, after = (
        {tuple(word.text for word in words): score for words, score in beam.ranking(0)} for beam in (plain, hot)
    )
    assert before.keys() == after.keys()
    for words, score in before.items():
        bonus = 4 * 2 * OPTIONS.hotword_bonus * sum(pair == ("wa", "wb") for pair in itertools.pairwise(words))
        assert after[words] == pytest.approx(score + bonus, abs=1e-3)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "no letter"),
        ("- !", "no letter"),
        ("area 51", "digit"),
        ("a b c a b c a", "6 words"),
        ("ab" * 31, "60 characters"),
        ("xyz", "'xyz' cannot be pronounced"),
        ("北京", "cannot be pronounced"),
    ],
)
def test_what_can_be_no_hotword_is_said(text: str, wrong: str) -> None:
    """An impossible hotword is refused with the reason, and the slot can still be used."""
    beam = search(Tongue(0), NARROW)
    with pytest.raises(ValueError, match=wrong):
        finish(beam.prepare(0, [Hotword("ab"), Hotword(text)], 0))
    advance(beam, [0], emissions(0, 1, 8))


def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many hotwords, too many for the tables, and new words without a letter-to-sound model are refused."""
    tongue = Tongue(0)
    beam = search(tongue, NARROW)
    with pytest.raises(ValueError, match="200"):
        finish(beam.prepare(0, [Hotword("ab")] * 201, 0))
    monkeypatch.setattr("streamer.engine.language.lexicon.MOST_NODES", 10)
    with pytest.raises(NotNow, match="no room"):
        finish(beam.prepare(0, [Hotword("ab")], 0))
    assert isinstance(beam._expander._nodes, TrieTables)
    with pytest.raises(ValueError, match="not in the lexicon"):
        finish(BeamSearch(tongue.lexicon, tongue.model, UNITS, 1, NARROW).prepare(0, [Hotword("ab")], 0))


def test_the_words_of_a_hotword() -> None:
    """Hotwords are split as the language model writes words: lower case, apostrophes kept, hyphens and points apart."""
    assert words_of("Jean-Luc O\N{RIGHT SINGLE QUOTATION MARK}Brien") == ["jean", "luc", "o'brien"]
    assert words_of("St. Émilie!") == ["st", "émilie"]


def test_accents_do_not_hide_a_known_word() -> None:
    """A word with accents is pronounced like the one without, and is shown as the client wrote it."""
    tongue = Tongue(4)
    beam = search(tongue, NARROW)
    expected = beam._compiler.compile([Hotword("wà")])
    assert expected is not None
    assert expected.texts == ("wà",)
    assert {way for _, way in expected.trie.pronunciations()} == tongue.pronunciations["wa"]


SHIPPED = BUNDLE


def test_names_are_heard_in_the_shipped_language() -> None:
    """A name that no dictionary has is found if it is a hotword and its phones are clear."""
    lexicon = Lexicon.load(SHIPPED / "lexicon.safetensors")
    language = LanguageModel.load(SHIPPED / "language.safetensors")
    letters = LetterToSound.load(SHIPPED / "letters.safetensors")
    name = "kowaltzing"
    assert name not in language.words
    phones = letters.pronounce(name)[0]
    inventory = sorted({phone for _, found in letters._stored[0] for phone in found} - {"<", ">"})
    units = ["<blank>", "|", *inventory]
    said = [unit for phone in phones for unit in (units.index(phone), 0)] + [1, 0]
    log_probs = torch.full((1, len(said), len(units)), 0.2 / len(units)).log()
    log_probs[0, torch.arange(len(said)), torch.tensor(said)] = math.log(0.8)
    beam = BeamSearch(lexicon, language, units, 2, BeamOptions(beam=32), letters=letters)
    finish(beam.prepare(1, [Hotword("Kowaltzing")], 0))
    beam.reset([1])
    found = advance(beam, [0, 1], log_probs.expand(2, -1, -1))
    assert [texts(one)[-1:] == (name,) for one in found] == [False, True]


@pytest.mark.parametrize("hotwords", LISTS, ids=["words", "new", "phrases", "nested"])
def test_the_search_of_the_second_pass_has_the_same_hotwords(hotwords: list[Hotword]) -> None:
    """The search of the second pass has the hotwords of the first, and a width of its own."""
    tongue, log_probs = Tongue(3, words=2), emissions(3, 1, 6)
    first = search(tongue, NARROW, slots=3)
    second = BeamSearch(tongue.lexicon, tongue.model, UNITS, 3, OPTIONS, first=first)
    expected = {}
    for options in (NARROW, OPTIONS):
        alone = search(tongue, options)
        finish(alone.prepare(0, hotwords, 0))
        alone.reset([0])
        advance(alone, [0], log_probs)
        expected[options.beam] = alone.ranking(0)
    finish(first.prepare(2, hotwords, 0))
    for beam in (first, second):
        beam.reset([2])
        advance(beam, [2], log_probs)
    assert second.ranking(2) == expected[OPTIONS.beam]
    assert first.ranking(2) == expected[NARROW.beam]
    first.release(2)
    second.reset([2])
    advance(second, [2], log_probs)
    plain = search(tongue, OPTIONS)
    advance(plain, [0], log_probs)
    assert second.ranking(2) == plain.ranking(0)


WORDS = ["".join(way) for way in itertools.product("abc", repeat=4)]


def ways(word: str) -> Ways:
    return [(word,)]


def test_a_guess_is_made_once_for_each_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same caller's words are not guessed twice; other callers cannot see that they were guessed."""
    asked: list[str] = []
    scoring = LetterToSound.score_in_parts

    def noted(self: LetterToSound, words: Sequence[str], beam: int = BEAM) -> Work[list[list[tuple[Ways, float]]]]:
        asked.extend(words)
        return scoring(self, words, beam)  # type: ignore[return-value]

    monkeypatch.setattr(LetterToSound, "score_in_parts", noted)
    pronouncer = Pronouncer(spelling())
    found = finish(pronouncer.guess(WORDS, "anna"))
    assert found["abab"] == [("a", "b", "a", "b")]
    assert sorted(asked) == WORDS
    assert finish(pronouncer.guess([*WORDS[:5], "cab"], "anna"))["cab"][0] == ("b", "a", "b")
    assert asked[len(WORDS) :] == ["cab"]
    finish(pronouncer.guess(["cab"], "ben"))
    assert asked[-2:] == ["cab", "cab"]


def test_the_work_is_in_small_parts() -> None:
    """A part of the work is one letter of a few words, however many words there are."""
    parts = sum(1 for _ in Pronouncer(spelling()).guess(WORDS, ""))
    assert parts > len(WORDS) / 8 * 5


def test_nobody_flushes_what_another_uses() -> None:
    """A caller with ever new words loses its own words, not those of a caller with fewer."""
    memories = CallerMemories(most_words=100, most_callers=10)
    for number in range(20):
        memories.keep("anna", f"name {number}", ways("n"))
    for number in range(10_000):
        memories.keep("mallory", str(number), ways("x"))
    assert all(memories.recall("anna", f"name {number}") for number in range(20))
    assert sum(memories.recall("mallory", str(number)) is not None for number in range(10_000)) == 80


def test_callers_who_come_once_make_room_for_those_who_return() -> None:
    """New callers, however many, do not displace the words of a caller that has used them again."""
    memories = CallerMemories(most_words=1000, most_callers=10)
    memories.keep("anna", "name", ways("n"))
    assert memories.recall("anna", "name")
    for number in range(10_000):
        memories.keep(f"stranger {number}", "word", ways("x"))
    assert memories.recall("anna", "name")
    assert memories.recall("stranger 9999", "word")
    assert memories.recall("stranger 0", "word") is None
