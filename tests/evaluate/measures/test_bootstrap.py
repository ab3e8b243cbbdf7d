"""Bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.evaluate.measures.bootstrap import CorpusSample, Counts, Interval, interval


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
