"""Rates by corpus and in all."""

from __future__ import annotations

from pathlib import Path

from streamer.evaluate.manifest import AudioLocation, Utterance
from streamer.evaluate.measures.scores import Scored, as_dict, rates, scored, worst


def result(corpus: str, reference: str, hypothesis: str, speaker: str | None = None, failure: str = "") -> Scored:
    utterance = Utterance(
        f"{corpus}/{reference}", corpus, speaker, tuple(reference.split()), AudioLocation(Path("unused"))
    )
    return scored(utterance, hypothesis.split(), failure)


RESULTS = [
    result("b", "one two three four", "one two tree", "s1"),
    result("a", "yes", "yes", "s1"),
    result("b", "no", "no no", "s1"),
    result("b", "this was never heard", "", failure="The connection was lost."),
]


def test_by_corpus_and_in_all() -> None:
    """Sums over sums, not means of rates; a failed utterance counts with all its words."""
    first, second, everything = rates(RESULTS)
    assert (first.name, first.utterances, first.wer.value) == ("a", 1, 0.0)
    assert (second.name, second.utterances, second.speakers, second.failed) == ("b", 3, 1, 1)
    assert second.wer.value == (1 + 1 + 1 + 4) / 9
    assert (second.errors.substitutions, second.errors.deletions, second.errors.insertions) == (1, 5, 1)
    assert (everything.name, everything.errors.words, everything.wer.value) == ("all", 10, 0.7)
    # The same name in two corpora is two people.
    assert everything.speakers == 2


def test_one_corpus_is_one_line() -> None:
    """It is not repeated as all."""
    assert [line.name for line in rates(RESULTS[:1])] == ["b"]


def test_a_line_for_programs() -> None:
    """In percent, with what the intervals were drawn from."""
    line = as_dict(rates(RESULTS)[1])
    assert (line["words"], line["substitutions"], line["failed"], line["drawn"]) == (9, 1, 1, "utterances")
    assert line["wer"]["value"] == 77.78
    assert line["wer"]["low"] <= 77.78 <= line["wer"]["high"]
    assert as_dict(rates(RESULTS)[0])["wer"] == {"value": 0.0, "low": None, "high": None}


def test_the_worst_cost_the_most_words() -> None:
    """Not those with the highest rate, which are the shortest ones; those without errors are not bad at all."""
    assert [each.errors.word_errors for each in worst(RESULTS, 2)] == [4, 2]
    assert len(worst(RESULTS, 10)) == 3
    assert worst(RESULTS, 0) == []
