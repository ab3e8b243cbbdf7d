"""Pairing of words, errors and their rates by corpus, and bootstrap intervals."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.commands.accuracy.manifest import AudioLocation, Utterance
from streamer.commands.accuracy.word_errors import (
    DELETED,
    INSERTED,
    RIGHT,
    SUBSTITUTED,
    CorpusSample,
    Counts,
    ErrorCounts,
    Interval,
    ScoredUtterance,
    corpus_differences,
    corpus_rates,
    count_errors,
    differences_as_dict,
    interval,
    pair_words,
    rates_as_dict,
    score_utterance,
    worst,
)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "expected"),
    [
        ("a b c", "a b c", ErrorCounts(3, 0, 0, 0, 5, 0)),
        ("a b c", "a x c", ErrorCounts(3, 1, 0, 0, 5, 1)),
        ("a b c", "a c", ErrorCounts(3, 0, 0, 1, 5, 2)),
        ("a c", "a b b c", ErrorCounts(2, 0, 2, 0, 3, 4)),
        ("a b", "", ErrorCounts(2, 0, 0, 2, 3, 3)),
        ("the cat sat", "cat sat down", ErrorCounts(3, 0, 1, 1, 11, 8)),
    ],
)
def test_counts(reference: str, hypothesis: str, expected: ErrorCounts) -> None:
    """Word errors are counted by kind, character errors together, including spaces."""
    assert count_errors(reference.split(), hypothesis.split()) == expected


def test_words_side_by_side() -> None:
    """Every word of both texts is in exactly one pair, in order."""
    pairs = pair_words(["the", "cat", "sat"], ["cat", "sat", "down"])
    assert [(pair.kind, pair.reference, pair.hypothesis) for pair in pairs] == [
        (DELETED, 0, None),
        (RIGHT, 1, 0),
        (RIGHT, 2, 1),
        (INSERTED, None, 2),
    ]


def test_the_least_number_of_errors() -> None:
    """For random texts the errors are the Levenshtein distance, and words paired as right are equal."""
    generator = random.Random(0)
    for _ in range(200):
        reference, hypothesis = ([generator.choice("abc") for _ in range(generator.randrange(9))] for _ in range(2))
        pairs = pair_words(reference, hypothesis)
        assert [pair.reference for pair in pairs if pair.reference is not None] == list(range(len(reference)))
        assert [pair.hypothesis for pair in pairs if pair.hypothesis is not None] == list(range(len(hypothesis)))
        for pair in pairs:
            if pair.reference is not None and pair.hypothesis is not None:
                assert pair.kind in (RIGHT, SUBSTITUTED)
                assert (reference[pair.reference] == hypothesis[pair.hypothesis]) == (pair.kind == RIGHT)
        errors = count_errors(reference, hypothesis).word_errors
        assert errors == sum(pair.kind != RIGHT for pair in pairs) == textbook(reference, hypothesis)


def test_counts_add_up() -> None:
    """Counts are added field by field."""
    assert ErrorCounts(1, 2, 3, 4, 5, 6) + ErrorCounts(10, 20, 30, 40, 50, 60) == ErrorCounts(11, 22, 33, 44, 55, 66)


def textbook(first: list[str], second: list[str]) -> int:
    """Levenshtein's distance, row by row."""
    row = list(range(len(second) + 1))
    for place, word in enumerate(first, start=1):
        above, row = row, [place]
        for column, other in enumerate(second, start=1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (word != other)))
    return row[-1]


def result(
    corpus: str, reference: str, hypothesis: str, speaker: str | None = None, failure: str = ""
) -> ScoredUtterance:
    utterance = Utterance(
        f"{corpus}/{reference}", corpus, speaker, tuple(reference.split()), AudioLocation(Path("unused"))
    )
    return score_utterance(utterance, hypothesis.split(), failure)


RESULTS = [
    result("b", "one two three four", "one two tree", "s1"),
    result("a", "yes", "yes", "s1"),
    result("b", "no", "no no", "s1"),
    result("b", "this was never heard", "", failure="The connection was lost."),
]


def test_by_corpus_and_in_all() -> None:
    """Rates are sums over sums, and a failed utterance counts with all its words."""
    first, second, everything = corpus_rates(RESULTS)
    assert (first.name, first.utterances, first.wer.value) == ("a", 1, 0.0)
    assert (second.name, second.utterances, second.speakers, second.failed) == ("b", 3, 1, 1)
    assert second.wer.value == (1 + 1 + 1 + 4) / 9
    assert (second.errors.substitutions, second.errors.deletions, second.errors.insertions) == (1, 5, 1)
    assert (everything.name, everything.errors.words, everything.wer.value) == ("all", 10, 0.7)
    # The same name in two corpora is two people.
    assert everything.speakers == 2


def test_one_corpus_is_one_line() -> None:
    """A single corpus is not repeated as all."""
    assert [line.name for line in corpus_rates(RESULTS[:1])] == ["b"]


def test_a_line_for_programs() -> None:
    """Rates for programs are in percent, with what the intervals were drawn from."""
    line = json.loads(json.dumps(rates_as_dict(corpus_rates(RESULTS)[1])))
    assert (line["words"], line["substitutions"], line["failed"], line["drawn"]) == (9, 1, 1, "utterances")
    assert line["wer"]["value"] == 77.78
    assert line["wer"]["low"] <= 77.78 <= line["wer"]["high"]
    assert rates_as_dict(corpus_rates(RESULTS)[0])["wer"] == {"value": 0.0, "low": None, "high": None}


def test_the_worst_cost_the_most_words() -> None:
    """The worst utterances are those with the most errors, not the highest rate; correct ones are left out."""
    assert [each.errors.word_errors for each in worst(RESULTS, 2)] == [4, 2]
    assert len(worst(RESULTS, 10)) == 3
    assert worst(RESULTS, 0) == []


def rate(sums: Counts) -> Counts:
    """The rate of word errors."""
    return sums[:, 1] / sums[:, 0]


def sample(errors: NDArray[Any], speakers: Sequence[str | None], corpus: str = "a") -> CorpusSample:
    """Utterances of one word each."""
    return CorpusSample(corpus, np.stack([np.ones(len(errors)), errors], axis=1).astype(float), speakers)


def test_the_width_is_that_of_the_binomial() -> None:
    """For a thousand words with a fifth wrong, the interval is 20 % plus and minus 2.5 %, as in theory."""
    found = interval([sample(np.arange(1000) % 5 == 0, [None] * 1000)], rate)
    assert found.value == pytest.approx(0.2)
    assert found.low == pytest.approx(0.175, abs=0.004)
    assert found.high == pytest.approx(0.225, abs=0.004)


def width(found: Interval) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low


def test_speakers_are_drawn_whole() -> None:
    """If speakers are always right or always wrong, more words of each do not narrow the interval."""
    errors = np.repeat(np.arange(20) % 5 == 0, 50)
    speakers = [str(number) for number in np.repeat(np.arange(20), 50)]
    known = interval([sample(errors, speakers)], rate)
    unknown = interval([sample(errors, [None] * 1000)], rate)
    assert known.value == unknown.value
    assert width(known) > 5 * width(unknown)


def test_too_few_speakers_say_nothing_of_others() -> None:
    """With few speakers utterances are drawn instead."""
    errors = np.arange(200) % 5 == 0
    few = [str(number % 4) for number in range(200)]
    assert interval([sample(errors, few)], rate) == interval([sample(errors, [None] * 200)], rate)


def test_always_the_same_and_for_each_corpus_its_own() -> None:
    """An interval is reproducible and independent of other corpora; the overall rate lies in between."""
    first = sample(np.arange(100) % 5 == 0, [None] * 100, "a")
    second = sample(np.arange(100) % 2 == 0, [None] * 100, "b")
    assert interval([first], rate) == interval([first], rate)
    both = interval([first, second], rate)
    assert both == interval([second, first], rate)
    assert both.value == pytest.approx(0.35)
    highest = [each.high for each in (interval([first], rate), both, interval([second], rate)) if each.high is not None]
    assert len(highest) == 3
    assert highest[0] < highest[1] < highest[2]


def test_one_utterance_has_no_interval() -> None:
    """A single utterance per corpus gives no interval."""
    lone = sample(np.ones(1), [None])
    assert interval([lone], rate) == (1.0, None, None)
    assert interval([lone, lone._replace(corpus="b")], rate) == (1.0, None, None)


def ten_words(corpus: str, errors: Sequence[int], speakers: Sequence[str] | None = None) -> list[ScoredUtterance]:
    """Utterances of ten words, of which so many are missing."""
    words = "abcdefghij"
    return [
        result(corpus, " ".join(words), " ".join(words[: 10 - wrong]), speakers[number] if speakers else None)
        for number, wrong in enumerate(errors)
    ]


def test_an_equal_gain_everywhere_is_certain() -> None:
    """One error less in every utterance is a tenth less in any resample, however uncertain both rates are."""
    hard = [1, 9] * 20
    [found] = corpus_differences(ten_words("a", hard), ten_words("a", [wrong - 1 for wrong in hard]))
    assert (found.name, found.errors, found.drawn) == ("a", -40, "utterances")
    assert found.points == (-0.1, -0.1, -0.1)
    [rates] = corpus_rates(ten_words("a", hard))
    assert width(rates.wer) > 0.2
    assert width(found.relative) > 0.1


def test_half_the_errors_everywhere_are_half_the_errors() -> None:
    """The relative difference is paired too."""
    [found] = corpus_differences(ten_words("a", [2, 8] * 20), ten_words("a", [1, 4] * 20))
    assert found.relative == (-0.5, -0.5, -0.5)
    assert found.points.value == -0.25
    assert width(found.points) > 0.05


def test_the_width_is_that_of_the_differences() -> None:
    """The interval is 1.96 standard errors of the mean difference, as in theory; both orders give the same width."""
    generator = np.random.default_rng(3)
    first, other = (list(map(int, generator.integers(0, 6, 400))) for _ in range(2))
    [found] = corpus_differences(ten_words("a", first), ten_words("a", other))
    expected = 2 * 1.96 * np.std(np.subtract(other, first)) / np.sqrt(400) / 10
    assert width(found.points) == pytest.approx(expected, rel=0.08)
    [reverse] = corpus_differences(ten_words("a", other), ten_words("a", first))
    assert reverse.points.value == -found.points.value
    assert width(reverse.points) == pytest.approx(width(found.points))


def test_differences_draw_speakers() -> None:
    """A gain that a few of the speakers have is less certain than the number of utterances suggests."""
    speakers = [str(number // 20) for number in range(400)]
    gains = [1 if number // 20 < 4 else 0 for number in range(400)]
    first, other = [2] * 400, [2 - gain for gain in gains]
    [known] = corpus_differences(ten_words("a", first, speakers), ten_words("a", other, speakers))
    [unknown] = corpus_differences(ten_words("a", first), ten_words("a", other))
    assert (known.drawn, unknown.drawn) == ("speakers", "utterances")
    assert known.points.value == unknown.points.value
    assert width(known.points) > 3 * width(unknown.points)


def test_differences_of_several_corpora() -> None:
    """Each corpus has a line, and so have all together; programs get the same in percent."""
    first = [*ten_words("b", [5] * 10), *ten_words("a", [1] * 10)]
    other = [*ten_words("b", [3] * 10), *ten_words("a", [1] * 10)]
    lines = corpus_differences(first, other)
    assert [(line.name, line.errors) for line in lines] == [("a", 0), ("b", -20), ("all", -20)]
    assert [line.points.value for line in lines] == [0.0, -0.2, -0.1]
    found = json.loads(json.dumps(differences_as_dict(lines)))
    assert list(found["corpora"]) == ["a", "b"]
    assert found["all"]["word_errors"] == -20
    assert found["corpora"]["b"]["points"] == {"value": -20.0, "low": -20.0, "high": -20.0}


def test_one_utterance_has_no_interval_of_a_difference() -> None:
    """A single utterance in each corpus gives no interval."""
    [found] = corpus_differences(ten_words("a", [2]), ten_words("a", [1]))
    assert found.points == (-0.1, None, None)


def test_where_nothing_is_wrong_there_is_no_division_by_it() -> None:
    """Without errors to compare with, the relative difference is a number all the same."""
    [more] = corpus_differences(ten_words("a", [0, 0]), ten_words("a", [1, 1]))
    [none] = corpus_differences(ten_words("a", [0, 0]), ten_words("a", [0, 0]))
    assert (more.relative.value, none.relative.value) == (4.0, 0.0)
