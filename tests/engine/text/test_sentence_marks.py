"""The windows of a segment for the punctuation model, and the decided marks."""

from __future__ import annotations

from collections.abc import Sequence

from streamer.base.limits import LONGEST_CONTEXT_PAUSE_MS, LONGEST_CONTEXT_WORD
from streamer.engine.text.marks import HeardWord, MarkedWord
from streamer.engine.text.sentence_marks import Asking, SegmentWords, SentenceMarks, T, Window
from tests.engine.random_marks import random_marks

MODEL = random_marks()


def heard(text: str, before_ms: int = 0, last_ms: int | None = None) -> SegmentWords:
    """Return these words with a pause of 100 ms after each, except the last one."""
    words = text.split()
    pauses = [100] * (len(words) - 1) + [last_ms]
    return SegmentWords(before_ms, tuple(map(HeardWord, words, pauses)))


def answered(work: Asking[T]) -> tuple[T, Sequence[Window]]:
    """Return the result of work, and the windows that it needed marks for."""
    windows: Sequence[Window] = ()
    try:
        windows = next(work)
        work.send(MODEL.read(windows))
    except StopIteration as end:
        return end.value, windows
    raise AssertionError("it asked twice")


def fresh(context: Window = ()) -> SentenceMarks:
    return SentenceMarks(MODEL.behind, MODEL.ahead, context)


TEXT = "a b c d e f g h i j k l m n o p q r s t"


def whole(text: str, last_ms: int | None = None) -> list[MarkedWord]:
    return MODEL.read([heard(text, last_ms=last_ms).words])[0]


def test_only_what_is_open_is_asked_about() -> None:
    """The model does not read decided words again, nor the same words twice."""
    marks, words = fresh(), TEXT.split()
    for known in range(1, len(words) + 1):
        segment = heard(" ".join(words[:known]))
        found, [window] = answered(marks.read(segment, stable=known))
        assert len(window) <= MODEL.behind + MODEL.ahead + 1
        assert marks.decided == max(0, known - MODEL.ahead)
        assert found[: marks.decided] == whole(TEXT)[: marks.decided]
        again, windows = answered(marks.read(segment, stable=known))
        assert (again, windows) == (found, ())


def test_words_after_a_cut_see_those_before_it() -> None:
    """The answers are those of the whole text, and the pause over the cut is the sum of its parts."""
    first, second = heard("a b c d e f g h i", last_ms=700), heard("j k l m", before_ms=300, last_ms=900)
    marks = fresh()
    answered(marks.end(first, []))
    marks.cut(first, 5000)
    assert [word.word for word in marks.context] == ["a", "b", "c", "d", "e", "f", "g", "h", "i"][-MODEL.behind :]
    assert marks.context[-1].pause_ms == 700
    (found, _), _ = answered(marks.end(second, []))
    both = (*first.words[:-1], HeardWord("i", 1000), *second.words)
    assert found == MODEL.read([both])[0][-4:]
    (resumed, _), _ = answered(fresh(marks.context).end(second, []))
    assert resumed == found


def test_the_context_is_bounded() -> None:
    """Long words are cut, and a silence counts up to a minute, over any number of cuts."""
    marks = fresh()
    marks.cut(heard("x" * 200, last_ms=10), 500)
    for _ in range(9):
        marks.cut(SegmentWords(0, ()), 20_000)
    assert marks.context == (HeardWord("x" * LONGEST_CONTEXT_WORD, LONGEST_CONTEXT_PAUSE_MS),)
    marks = fresh(())
    marks.cut(SegmentWords(0, ()), 20_000)
    assert marks.context == ()


def test_other_texts_are_asked_about_where_they_differ() -> None:
    """Alternatives have the marks that they would have alone, and the model reads only their ends."""
    marks = fresh()
    best, others = (
        heard(TEXT, last_ms=900),
        [heard(TEXT[:-1] + "x", last_ms=900), heard("z", last_ms=900), heard(TEXT, last_ms=900)],
    )
    (found, alternatives), windows = answered(marks.end(best, others))
    assert [found, *alternatives] == [MODEL.read([each.words])[0] for each in (best, *others)]
    assert [len(window) for window in windows[1:]] == [MODEL.behind + MODEL.ahead + 1, 1, MODEL.behind + MODEL.ahead]
