"""Marks on recordings: the printed text, precision and recall, baselines, and the delay until a mark is settled."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from streamer.base.events import Word
from streamer.engine.text.marks import Case, HeardWord, Mark, MarkedWord
from workshop.data.corpus import Utterance
from workshop.punctuation.labelled_text import labelled_sentences
from workshop.punctuation.measurement import (
    CAPITAL,
    HeardSegment,
    MarkScores,
    PrintedText,
    ReadClip,
    Segments,
    WrittenWord,
    by_majority,
    by_pauses,
    heard_scores,
    heard_segments,
    settling_delays,
    true_scores,
    true_segments,
    without_pauses,
    written_words,
)


def clip(text: str) -> ReadClip:
    """A recording of this text."""
    words = [word for sentence in labelled_sentences(text) for word in sentence]
    return ReadClip(Utterance("a", 0, 16000, "c", "s", " ".join(word.word for word in words)), words)


def segment(words: str, starts: Sequence[int], ended_ms: int, stable: Sequence[tuple[int, int]] = ()) -> HeardSegment:
    """Words of 100 ms each."""
    timed = tuple(Word(word, start, start + 100) for word, start in zip(words.split(), starts, strict=True))
    return HeardSegment(timed, ended_ms, tuple(stable))


def all_commas(segments: Segments) -> list[MarkedWord]:
    """A comma after every word, and no capitals."""
    return [MarkedWord(Mark.COMMA, Case.LOWER) for words in segments for _ in words]


def test_true_words_get_the_pauses_of_the_words_that_were_heard() -> None:
    """Words that were not recognised have no pauses."""
    heard = [segment("yes tom in", [0, 500, 600], 2000)]
    [found] = true_segments(clip("Yes, Tom was in."), heard)
    assert found == [HeardWord("yes", 400), HeardWord("tom", 0), HeardWord("was", 0), HeardWord("in", 1300)]


def test_a_mark_after_a_lost_word_belongs_to_the_word_before() -> None:
    """The mark after a lost word belongs to the word before, and an added word has no mark."""
    scores = MarkScores()
    heard = heard_segments([segment("we saw uh home", [0, 100, 200, 300], 1000)])
    heard_scores(clip("We saw it, home."), heard, all_commas, scores)
    assert (scores.found["COMMA"], scores.expected["COMMA"]) == (4, 1)
    lost = MarkScores()
    heard_scores(clip("We saw it, home."), heard_segments([segment("we saw home", [0, 1, 2], 1000)]), all_commas, lost)
    assert (lost.expected["COMMA"], lost.right["COMMA"], lost.expected["FULL_STOP"]) == (1, 1, 1)


def test_pauses_alone_make_marks() -> None:
    """The length of a pause decides its mark, and a segment ends with a full stop."""
    heard = heard_segments([segment("so i left then", [0, 400, 600, 1500], 1700)])
    found = by_pauses(200, 600)(heard)
    assert [word.mark for word in found] == [Mark.COMMA, Mark.NONE, Mark.FULL_STOP, Mark.FULL_STOP]
    assert [word.case for word in found] == [Case.LOWER, Case.FIRST, Case.LOWER, Case.LOWER]
    scores = MarkScores()
    printed = clip("So, I left. Then.")
    true_scores(
        printed,
        true_segments(printed, [segment("so i left then", [0, 400, 600, 1500], 1700)]),
        by_pauses(200, 600),
        scores,
    )
    assert [scores.f1(kind) for kind in ("COMMA", "FULL_STOP", CAPITAL)] == [1.0, 1.0, 1.0]


def test_the_majority_marks_only_ends() -> None:
    """Whatever the pauses are, which can be taken away."""
    heard = heard_segments([segment("so he left", [0, 900, 1800], 2500), segment("yes", [2600], 3500)])
    assert [word.mark for word in by_majority(heard)] == [Mark.NONE, Mark.NONE, Mark.FULL_STOP, Mark.FULL_STOP]
    assert [[word.pause_ms for word in words] for words in without_pauses(heard)] == [[None, None, 600], [800]]


def test_a_mark_settles_with_words_that_follow_or_the_end() -> None:
    """The delay of a mark is counted in words and in milliseconds."""
    heard = [segment("a b c d", [0, 100, 200, 300], 2000, [(320, 1), (640, 2), (960, 4)])]
    found = list(settling_delays(heard, ahead=2))
    assert [delay.words for delay in found] == [2, 2, 1, 0]
    assert [delay.ms for delay in found] == [960 - 320, 960 - 640, 2000 - 960, 2000 - 960]


PRINTED = PrintedText(["In the morning, Tom was", "He was not at home, was he?", "In the morning, Tom was out."])


def utterance(text: str) -> Utterance:
    """A recording of these words."""
    return Utterance("a", 0, 16000, "c", "s", text)


def test_the_longest_printed_sentence_counts() -> None:
    """The longest printed sentence gives the marks."""
    clip = PRINTED.clip(utterance("in the morning tom was out"))
    assert [word.mark for word in clip.words] == [*[Mark.NONE] * 2, Mark.COMMA, *[Mark.NONE] * 2, Mark.FULL_STOP]
    assert clip.known == 1.0


def test_several_sentences_are_found_in_one_recording() -> None:
    """Words between the sentences of a recording have no labels."""
    clip = PRINTED.clip(utterance("well he was not at home was he in the morning tom was"))
    assert [word.word for word in clip.words if word.mark is None] == ["well", "was"]
    assert [word.word for word in clip.words if word.begins] == ["he", "in"]


def test_f1_counts_what_was_found_and_what_was_not() -> None:
    """One right comma, one too many, one too few."""
    scores = MarkScores()
    for found, expected in ((Mark.COMMA, Mark.COMMA), (Mark.COMMA, Mark.NONE), (Mark.NONE, Mark.COMMA)):
        scores.add(WrittenWord(found, False), WrittenWord(expected, False))
    assert scores.f1("COMMA") == pytest.approx(0.5)
    assert math.isnan(scores.f1(CAPITAL))


def test_what_nobody_knows_does_not_count() -> None:
    """Neither a mark nor a capital."""
    scores = MarkScores()
    scores.add(WrittenWord(Mark.FULL_STOP, True), WrittenWord(None, None))
    assert not scores.found
    scores.add(WrittenWord(None, True), WrittenWord(Mark.FULL_STOP, True))
    assert scores.f1(CAPITAL) == 1.0


def test_a_sentence_begins_with_a_capital() -> None:
    """The first word of a sentence has a capital; after an unknown mark this is unknown."""
    marks = [Mark.NONE, Mark.QUESTION, Mark.COMMA, None, Mark.NONE]
    cases = [Case.LOWER, Case.ALL, Case.LOWER, None, Case.LOWER]
    assert [word.capital for word in written_words(marks, cases)] == [True, True, True, None, False]
