"""Error rates by corpus, and the halves of a set."""

from __future__ import annotations

import pytest

from streamer.training.search.corpus_errors import error_rates, halves, mean_over_corpora
from tests.training.search.clear_speech import said


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
