"""Marks and capitals beside those of the references."""

from __future__ import annotations

from dataclasses import replace

from streamer.commands.accuracy.manifest import normalise
from streamer.commands.accuracy.mark_errors import CAPITAL, COMMA, FULL_STOP, QUESTION, MarkCounts, mark_errors
from streamer.commands.accuracy.results import TimedEvent, UtteranceResult, timed_finals
from tests.commands.accuracy.handmade_evaluation import CAT


def result(reference: str, written: list[tuple[str, str]], corpus: str = "pets", failure: str = "") -> UtteranceResult:
    """The result of an utterance with these written and spoken words."""
    words = [{"word": word, "spoken": spoken, "start_ms": 0, "end_ms": 9} for word, spoken in written]
    text = " ".join(word for word, _ in written)
    final = {"type": "final", "segment": 0, "text": text, "words": words, "confidence": 0.5, "audio_ms": 9}
    utterance = replace(CAT, corpus=corpus, text=reference, words=tuple(normalise(reference)))
    return UtteranceResult(utterance, 1.0, tuple(timed_finals([TimedEvent(0, final)])), failure)


def test_marks_are_compared_at_the_words_that_are_right() -> None:
    """A mark counts at the word before it; a wrong word says nothing, nor does the capital of a number."""
    heard = [
        ("So,", "so"),
        ("Quilter", "quilter"),
        ("has", "has"),
        ("$21.", "twenty one dollars"),
        ("really?", "really"),
    ]
    [counts] = mark_errors([result("So, Quilter had twenty one dollars. Really!", heard)]).values()
    assert counts[COMMA] == MarkCounts(1, 1, 1)
    assert counts[FULL_STOP] == MarkCounts(2, 1, 1)
    assert counts[QUESTION] == MarkCounts(0, 1, 0)
    assert counts[CAPITAL] == MarkCounts(3, 2, 2)
    assert (counts[FULL_STOP].precision, counts[FULL_STOP].recall) == (1.0, 0.5)
    assert (counts[QUESTION].precision, counts[QUESTION].recall, counts[QUESTION].f1) == (0.0, None, 0.0)


def test_references_without_marks_are_left_out() -> None:
    """What has no marks cannot be compared; several corpora are added up."""
    plain = result("so it goes", [("So", "so")])
    assert mark_errors([plain]) == {}
    marked = result("So it goes.", [("So", "so"), ("it", "it"), ("goes.", "goes")])
    failed = result("So it goes.", [], failure="lost")
    assert mark_errors([plain, marked, failed])["pets"][FULL_STOP] == MarkCounts(1, 1, 1)
    both = mark_errors([marked, result("Yes.", [("yes", "yes")], "people")])
    assert list(both) == ["people", "pets", "all"]
    assert both["all"][FULL_STOP] == MarkCounts(2, 1, 1)
    assert both["all"][CAPITAL] == MarkCounts(2, 1, 1)
