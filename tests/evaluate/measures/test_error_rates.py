"""Error rates by corpus and overall."""

from __future__ import annotations

from pathlib import Path

from streamer.evaluate.manifest import AudioLocation, Utterance
from streamer.evaluate.measures.error_rates import ScoredUtterance, corpus_rates, rates_as_dict, score_utterance, worst


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
    line = rates_as_dict(corpus_rates(RESULTS)[1])
    assert (line["words"], line["substitutions"], line["failed"], line["drawn"]) == (9, 1, 1, "utterances")
    assert line["wer"]["value"] == 77.78
    assert line["wer"]["low"] <= 77.78 <= line["wer"]["high"]
    assert rates_as_dict(corpus_rates(RESULTS)[0])["wer"] == {"value": 0.0, "low": None, "high": None}


def test_the_worst_cost_the_most_words() -> None:
    """The worst utterances are those with the most errors, not the highest rate; correct ones are left out."""
    assert [each.errors.word_errors for each in worst(RESULTS, 2)] == [4, 2]
    assert len(worst(RESULTS, 10)) == 3
    assert worst(RESULTS, 0) == []
