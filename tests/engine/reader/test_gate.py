"""What speaks for a reading, and whether it is believed."""

from __future__ import annotations

import pytest

from streamer.engine.reader.gate import TINY, Evidence, Gate, evidence_of
from streamer.engine.reader.reading import Reading, Token
from streamer.engine.search.search import HypothesisWord


def words(text: str, confidence: float = 0.5, share: float = 0.8) -> list[HypothesisWord]:
    return [HypothesisWord(word, place, place + 1, confidence, share) for place, word in enumerate(text.split())]


def evidence(read: str, first: str, gain: float = 0.0, *log_probabilities: float) -> Evidence:
    reading = Reading(read, tuple(Token(" x", each) for each in log_probabilities or (-0.1,)))
    return evidence_of(reading, words(read), words(first), gain)


def test_the_evidence_of_a_reading() -> None:
    """Certainty is the mean of the tokens, fit is what a word of the first pass gains, confidence is its mean."""
    found = evidence("a b c", "a b", -3.0, -0.1, -0.2, -0.6)
    assert found.certainty == pytest.approx(-0.3)
    assert found.fit == -1.5
    assert found.confidence == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("read", "first", "agreement"),
    [
        ("a b c", "a b c", 1.0),
        ("a b c", "a x c", 2 / 3),
        ("a b c d", "b c", 0.5),
        ("b c", "a b c d", 0.5),
        ("x", "a b", 0.0),
        ("", "a b", 0.0),
        ("a", "", 0.0),
        ("", "", 1.0),
    ],
)
def test_agreement_is_the_part_of_the_words_that_both_have(read: str, first: str, agreement: float) -> None:
    """Words are inserted, removed and replaced to get from one to the other."""
    assert evidence(read, first).agreement == pytest.approx(agreement)


def test_one_odd_word_does_not_outweigh_everything() -> None:
    """However badly words fit, the fit has a bound; and nothing is divided by nothing."""
    assert evidence("a", "b", -1e9).fit == evidence("a b", "b", -1e12).fit
    assert evidence("", "").confidence == 0.0
    assert evidence_of(Reading(), [], [], 0.0).certainty == 0.0


def test_the_score_is_the_weighted_sum() -> None:
    """Each weight counts with its evidence, and the constant alone."""
    gate = Gate(constant=0.5, certainty=1.0, fit=10.0, agreement=100.0, confidence=1000.0)
    assert gate.score(Evidence(certainty=2.0, fit=3.0, agreement=4.0, confidence=5.0)) == 5432.5
    assert gate.score(Evidence(0.0, 0.0, 0.0, 0.0)) == 0.5


def test_a_surer_reading_is_rather_believed() -> None:
    """With the weights as they are, certainty and fit speak for a reading."""
    low, high = Evidence(-1.0, -3.0, 0.5, 0.5), Evidence(-0.1, 0.0, 0.5, 0.5)
    assert TINY.score(low) < TINY.score(high)
