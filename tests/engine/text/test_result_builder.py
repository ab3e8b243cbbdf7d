"""Partial and final results of a segment."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from streamer.base.events import Final, Partial
from streamer.engine.search.search import Hotword, Hypothesis, HypothesisWord
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.calibration import Calibration, ConfidenceWeights, StepCalibration
from streamer.engine.text.marks import Case, Mark, MarkedWord
from streamer.engine.text.result_builder import ResultBuilder, SegmentEnding, SegmentPosition
from streamer.engine.text.sentence_marks import Asking

T = TypeVar("T")


def words(text: str, start: int = 10) -> tuple[HypothesisWord, ...]:
    """Return the words of a text, each five frames long, one after another."""
    return tuple(
        HypothesisWord(word, start + 5 * number, start + 5 * number + 5, 0.8, 0.5)
        for number, word in enumerate(text.split())
    )


def place(
    audio_ms: int = 60_000, segment: int = 0, start_ms: int = 0, step_ms: int = 320, search: str = "lexicon"
) -> SegmentPosition:
    return SegmentPosition(segment, start_ms, audio_ms, 40.0, step_ms, search)


def builder(calibration: Calibration | None = None, **options: object) -> ResultBuilder:
    return ResultBuilder(StreamOptions(**options), calibration or Calibration())  # type: ignore[arg-type]


def without_asking(work: Asking[T]) -> T:
    """Return the result of work that needs no punctuation model."""
    try:
        next(work)
    except StopIteration as end:
        found: T = end.value
        return found
    raise AssertionError("it asked")


def shown(by: ResultBuilder, text: str, stable: int = 0) -> Partial | None:
    return without_asking(by.partial(Hypothesis(words(text), stable), stable, place()))


def ended(by: ResultBuilder, text: str, **given: object) -> Final:
    return final_of(by.final(words(text), [], place(**given), SegmentEnding(pause=True)))  # type: ignore[arg-type]


def as_written(text: str) -> tuple[HypothesisWord, ...]:
    """The words of a reading with the capitals and marks that this text has."""
    found = []
    for word, written in zip(words(text), text.split(), strict=True):
        core = written.rstrip(".,?")
        mark = {"": Mark.NONE, ",": Mark.COMMA, ".": Mark.FULL_STOP, "?": Mark.QUESTION}[written[len(core) :]]
        case = Case.ALL if core.isupper() and len(core) > 1 else Case.FIRST if core[0].isupper() else Case.LOWER
        found.append(replace(word, text=core.lower(), marked=MarkedWord(mark, case)))
    return tuple(found)


def final_of(work: Asking[Final | None]) -> Final:
    final = without_asking(work)
    assert final is not None
    return final


def test_no_final_is_empty() -> None:
    """A segment whose words have no text ends without a final, and the next one goes on after it."""
    by = builder()
    nothing = (HypothesisWord("", 10, 15, 0.8, 0.5),)
    assert without_asking(by.final(nothing, [], place(), SegmentEnding(pause=True))) is None
    assert ended(by, "one", segment=0).text == "one"


def test_times_are_put_right_by_the_calibration_and_stay_in_order() -> None:
    """Times are corrected, but no word begins before the last final ended, or ends after the audio."""
    late = Calibration({"lexicon": {320: StepCalibration(start_ms=-130.0, end_ms=20.0)}})
    by = builder(late)
    found = ended(by, "one two three", audio_ms=900).words or ()
    assert [(word.start_ms, word.end_ms) for word in found] == [(270, 470), (470, 670), (670, 900)]
    second = by.final(words("four", start=0), [], place(segment=1, start_ms=700), SegmentEnding(pause=True))
    again = final_of(second).words or ()
    assert [(word.start_ms, word.end_ms) for word in again] == [(900, 920)]


def test_confidence_is_that_of_the_calibration() -> None:
    """Words have the confidence of the calibration, or else posterior times share; a final has the mean."""
    final = ended(builder(), "one two")
    assert [word.confidence for word in final.words or ()] == [0.4, 0.4]
    assert final.confidence == 0.4


@pytest.mark.parametrize(
    ("stability", "expected"),
    [
        ("low", ["a", "a b", "a c", "a c d"]),
        ("medium", ["a", "a c"]),  # b was never in two steps running, d is but new
        ("high", ["a"]),
    ],
)
def test_stability_is_what_a_user_chooses(stability: str, expected: list[str]) -> None:
    """Low shows everything at once, medium what two steps agree on, and high what will not change."""
    by = builder(stability=stability)
    steps = [("a", 0), ("a b", 1), ("a c", 1), ("a c d", 1)]
    partials = [partial for text, stable in steps if (partial := shown(by, text, stable))]
    assert [text for text, _ in itertools.groupby(partial.text for partial in partials)] == expected


def test_a_partial_says_something_new() -> None:
    """The same text again is not sent, unless more of it is stable."""
    by = builder()
    first, again, surer = shown(by, "a b"), shown(by, "a b"), shown(by, "a b", 1)
    assert first is not None
    assert (first.text, first.stable, first.words) == ("a b", 0, None)
    assert again is None
    assert surer is not None
    assert (surer.text, surer.stable) == ("a b", 1)
    assert shown(builder(partials=False), "a b") is None


def test_what_two_steps_agree_on_is_shown_by_the_second() -> None:
    """A hypothesis that stays the same shows its words with the second step, and nothing new with the third."""
    by = builder(stability="medium")
    found = [shown(by, "a b") for _ in range(3)]
    assert [partial and partial.text for partial in found] == [None, "a b", None]
    ended(by, "a b")
    assert [partial and partial.text for partial in (shown(by, "a b"), shown(by, "a b"))] == [None, "a b"]


def test_partials_carry_words_when_asked() -> None:
    """Words of partials have times, but no confidence, which is known only at the end."""
    partial = shown(builder(partial_words=True), "a b")
    assert partial is not None
    assert [(word.word, word.start_ms, word.end_ms, word.confidence) for word in partial.words or ()] == [
        ("a", 400, 600, None),
        ("b", 600, 800, None),
    ]


@pytest.mark.parametrize("stability", ["low", "medium", "high"])
def test_words_do_not_change_the_text_beside_them(stability: str) -> None:
    """A partial has the same text, stable part and start whether a client wants its words or not."""
    calibration = Calibration({"lexicon": {320: StepCalibration(-90.0, 30.0)}})
    both = [builder(calibration, stability=stability, partial_words=wanted) for wanted in (False, True)]
    for text, stable in (("a", 0), ("a b", 1), ("a b c", 1), ("今日 は b", 2), ("今日 は b 4", 3), ("今日 は b 4", 4)):
        plain, full = (shown(by, text, stable) for by in both)
        assert plain == (full and replace(full, words=None))


def test_the_written_form_keeps_the_spoken_beside_it() -> None:
    """In the written form each word has its spoken words, and the times and confidence of all of them."""
    final = ended(builder(written=True), "it costs twenty one dollars")
    assert (final.text, final.spoken) == ("It costs $21", "it costs twenty one dollars")
    last = (final.words or ())[-1]
    assert (last.word, last.spoken, last.start_ms, last.end_ms) == ("$21", "twenty one dollars", 800, 1400)


def test_stable_never_covers_a_number_that_may_go_on() -> None:
    """Twenty may become 21, so the stable text ends before it."""
    by = builder(written=True)
    partial = shown(by, "it costs twenty", 3)
    assert partial is not None
    assert partial.text[: partial.stable].strip() == "It costs"
    sure = shown(builder(written=True, stability="high"), "it costs twenty", 3)
    assert sure is not None
    assert sure.text == "It costs"


def test_a_sentence_goes_on_behind_a_cut_without_a_pause() -> None:
    """After a cut, the text begins with a capital only if the speaker paused."""
    by = builder(written=True)
    endings = [SegmentEnding(pause) for pause in (False, True, True)]
    texts = [final_of(by.final(words("so it goes"), [], place(), ending)).text for ending in endings]
    assert texts == ["So it goes", "so it goes", "So it goes"]
    without_asking(by.final(words("so it goes"), [], place(), SegmentEnding(pause=False)))
    by.cut(place(), SegmentEnding(pause=True))  # a silence without a word
    assert ended(by, "so it goes").text == "So it goes"


def test_alternatives_begin_with_the_final_and_are_different() -> None:
    """Alternatives that became equal are merged, and there are at most as many as were asked for."""
    ranked = [(words("a b"), 0.5), (words("a c"), 0.3), (words("a b"), 0.1), (words("a d"), 0.1)]
    final = final_of(builder(alternatives=2).final(words("a b"), ranked, place(), SegmentEnding(pause=True)))
    assert [(other.text, other.confidence) for other in final.alternatives or ()] == [("a b", 0.6), ("a c", 0.3)]
    assert final_of(builder().final(words("a b"), ranked, place(), SegmentEnding(pause=True))).alternatives is None


def test_a_hotword_with_figures_is_one_word() -> None:
    """A hotword is written as given, beside the spoken words, and is not stable while it may still change."""
    options: dict[str, Any] = {"hotwords": (Hotword("k eight s", written="K8s"),), "partial_words": True}
    by = builder(**options)
    partial = shown(by, "run k eight", 3)
    assert partial is not None
    assert (partial.text, partial.stable) == ("run k eight", 3)
    partial = shown(by, "run k eight s now", 4)
    assert partial is not None
    assert (partial.text, partial.stable) == ("run K8s now", 7)
    final = ended(by, "run k eight s now")
    assert (final.text, final.spoken) == ("run K8s now", None)
    run, k8s, _ = final.words or ()
    assert (run.word, run.spoken) == ("run", None)
    assert (k8s.word, k8s.spoken, k8s.start_ms, k8s.end_ms) == ("K8s", "k eight s", 600, 1200)
    final = ended(builder(**options, written=True), "k eight s at ten")
    assert (final.text, final.spoken) == ("K8s at 10", "k eight s at ten")


@pytest.mark.parametrize(
    ("read", "pause", "text"),
    [
        ("So, it is Anna. Is it?", True, "So, it is Anna. Is it?"),
        ("So it goes on.", False, "So it goes on"),  # no mark is believed where the speaker goes on
        ("NASA was there", True, "NASA was there"),
        ("it is. then it was", True, "It is. Then it was"),
        ("It costs twenty one dollars, Anna.", True, "It costs $21, Anna."),
    ],
)
def test_a_reader_has_written_marks_and_capitals(read: str, pause: bool, text: str) -> None:
    """The marks and capitals of a reader are written, except the last mark if the speaker has not paused."""
    by = builder(written=True)
    final = final_of(by.final(as_written(read), [], place(), SegmentEnding(pause=pause)))
    assert final.text == text
    assert by.begins == pause


def test_the_capital_with_which_a_reader_begins_is_not_believed() -> None:
    """A reader begins each segment with a capital; behind a cut without a pause, the sentence goes on."""
    by = builder(written=True)
    texts = [
        final_of(by.final(as_written(read), [], place(), SegmentEnding(pause=False))).text
        for read in ("So it goes on.", "And on and Anna", "NASA was there", "It was")
    ]
    assert texts == ["So it goes on", "and on and Anna", "NASA was there", "it was"]


def test_words_without_marks_of_a_reader_stay_as_they_are() -> None:
    """Where a hotword of the first pass stands among the words of a reader, its neighbours keep their marks."""
    first, second, third = as_written("Well, some anna?")
    by = builder(written=True, hotwords=(Hotword("some", written="SoMe"),))
    read = (first, replace(second, marked=None), third)
    assert final_of(by.final(read, [], place(), SegmentEnding(pause=True))).text == "Well, SoMe anna?"


@pytest.mark.parametrize("hotwords", [(), (Hotword("k eight s", written="K8s"),)])
def test_the_spoken_words_of_a_reader_have_no_marks(hotwords: tuple[Hotword, ...]) -> None:
    """Whoever does not want the written form gets neither the marks nor the capitals of a reader."""
    by = builder(hotwords=hotwords)
    final = final_of(by.final(as_written("Well, it is Anna. Is it?"), [], place(), SegmentEnding(pause=True)))
    assert (final.text, final.spoken) == ("well it is anna is it", None)


def test_the_words_of_a_reader_are_corrected_as_measured_for_it() -> None:
    """Times and confidences are corrected by the calibration of what has read the words."""
    evidence = ConfidenceWeights(constant=2.0)
    fits = {
        "lexicon": {320: StepCalibration(start_ms=-40.0)},
        "reader": {320: StepCalibration(start_ms=40.0, evidence=evidence)},
    }
    found = [
        final_of(builder(Calibration(fits)).final(words("one"), [], place(search=search), SegmentEnding(pause=True)))
        for search in ("lexicon", "reader")
    ]
    assert [final.start_ms for final in found] == [360, 440]
    assert [final.confidence for final in found] == [0.4, 0.881]
