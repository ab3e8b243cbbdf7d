"""Running segments are read while they grow, and streams may have no other words than those of a reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.base.events import Final, Partial, ReadBy, StreamEvent
from streamer.engine.reader.growing import Growing, GrowingSegment, follow
from streamer.engine.reader.reader_pass import HeardSegment, ReaderPass
from streamer.engine.reader.reading import Reading, ReadingOptions, TimedWord
from streamer.engine.reader.segment_reader import PendingReading, ReaderError
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.search.search import Hypothesis, HypothesisWord
from streamer.engine.stream_events import StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_model import ExactModel, searches
from streamer.testing.exact_reader import ExactReader, exact_reader_pass
from streamer.testing.exact_speech import say, silence
from tests.engine.exact_streams import NOTHING, hear, text

RATE = 16_000
TIMED = ReadingOptions("de", times=True)
LONG = [say("bag head cage bad gab had dead " * 5), silence(1500)]
SPOKEN = [say("bag head"), silence(1500), say("cage bad gab"), silence(200)]


class Reader:
    """Reads exactly, in several languages, or fails some times before. It remembers how it was asked."""

    def __init__(self, fails: int = 0, languages: Sequence[str] = ("en", "de"), heard: str = "") -> None:
        """`heard`: the language that it says it has heard."""
        self.fails, self.languages, self.present, self.heard = fails, tuple(languages), True, heard
        self.asked: list[ReadingOptions] = []
        self.pending: list[_Pending] = []
        self.waits = False  # whether readings are there only when `answer` is called

    def ready(self) -> bool:
        return all(one.ready() for one in self.pending)

    def begin(
        self,
        samples: NDArray[np.int16],
        pauses: Sequence[tuple[int, int]],
        words: Sequence[str],
        options: ReadingOptions,
    ) -> PendingReading:
        self.asked.append(options)
        self.fails -= 1
        reading = replace(ExactReader().read(samples, pauses, words, options), language=self.heard)
        self.pending.append(_Pending(None if self.fails >= 0 else reading, waits=self.waits))
        return self.pending[-1]

    def answer(self) -> None:
        for one in self.pending:
            one.waits = False


class _Pending:
    def __init__(self, reading: Reading | None, *, waits: bool) -> None:
        self._reading, self.waits = reading, waits

    def ready(self) -> bool:
        return not self.waits

    def result(self) -> Reading:
        if self._reading is None:
            raise ReaderError("it has died")
        return self._reading


def recogniser(reader: Reader, **about: Any) -> Recogniser:
    return Recogniser(ExactModel(), searches(8), slots=8, reader_pass=exact_reader_pass(reader), **about)


def finals(events: Sequence[StreamEvent]) -> list[Final]:
    return [event for event in events if isinstance(event, Final)]


def partials(events: Sequence[StreamEvent]) -> list[Partial]:
    return [event for event in events if isinstance(event, Partial)]


def steps(audio: Sequence[NDArray[np.int16]]) -> list[NDArray[np.int16]]:
    whole = np.concatenate(audio)
    return np.split(whole, range(5120, len(whole), 5120))


# Streams whose words are those of the reader alone.


@pytest.mark.parametrize("options", [{"language": "de"}, {"language": "de-AT"}, {"translate": True}])
def test_a_stream_in_another_language_has_the_words_of_the_reader(options: dict[str, Any]) -> None:
    """Finals have its words as they are, with its times and without the confidence of phones."""
    reader = Reader()
    events = hear(recogniser(reader), SPOKEN, StreamOptions(**options))
    assert text(events) == "bag head cage bad gab"
    assert [final.read_by for final in finals(events)] == [ReadBy.READER] * 2
    assert {(asked.language, asked.translate) for asked in reader.asked} == {
        (options.get("language", "auto"), options.get("translate", False))
    }
    assert all(asked.times for asked in reader.asked)
    words = [word for final in finals(events) for word in final.words or ()]
    assert [round(word.confidence or 0, 2) for word in words] == [0.82] * 5
    assert [word.start_ms for word in words] == sorted(word.start_ms for word in words)


def test_a_model_may_leave_all_words_to_the_reader() -> None:
    """Then `auto` and English are read by it as well, and so is what it hears in them."""
    reader = Reader()
    one = recogniser(reader, reads_alone=True)
    assert one.languages == ("auto", "en", "de")
    assert text(hear(one, SPOKEN)) == "bag head cage bad gab"
    assert {asked.language for asked in reader.asked} == {"auto"}


@pytest.mark.parametrize(
    ("reader", "options", "language"),
    [
        (Reader(heard="de"), {}, "de"),
        (Reader(heard="de"), {"translate": True}, "de"),
        (Reader(heard="de"), {"language": "de"}, None),
        (Reader(heard="en", languages=("en",)), {}, None),
        (Reader(), {}, None),
    ],
    ids=["heard", "translated", "chosen", "one-language", "silent-reader"],
)
def test_a_final_has_the_language_that_the_reader_heard(
    reader: Reader, options: dict[str, Any], language: str | None
) -> None:
    """It is there if the reader had a choice and made it itself."""
    events = hear(recogniser(reader, reads_alone=True), SPOKEN, StreamOptions(**options))
    assert [final.language for final in finals(events)] == [language] * 2


def test_english_with_the_shipped_words_stays_combined() -> None:
    """With `auto` the recogniser has its own words, and the reader is told that they are English."""
    reader = Reader()
    one = recogniser(reader)
    events = hear(one, SPOKEN, StreamOptions(second_pass=True, reader=True, prompt="A gab."))
    assert [final.read_by for final in finals(events)] == [ReadBy.READER] * 2
    assert set(reader.asked) == {ReadingOptions("en", prompt="A gab.")}


def test_hotwords_and_the_prompt_are_an_example_for_the_reader() -> None:
    """A reader of other languages gets hotwords as it gets the prompt."""
    from streamer.engine.search.search import Hotword

    reader = Reader()
    hotwords = (Hotword("ka acht es", written="K8s"), Hotword("Müller"))
    hear(recogniser(reader), SPOKEN, StreamOptions(language="de", hotwords=hotwords, prompt="Guten Tag."))
    assert {asked.prompt for asked in reader.asked} == {"K8s, Müller Guten Tag."}


@pytest.mark.parametrize(
    ("languages", "options", "message"),
    [
        (("en", "de"), {"language": "fr"}, "the reader has no language 'fr'; it has en, de"),
        (("en",), {"language": "de"}, "this model has no choice of languages"),
        (("en",), {"translate": True}, "nothing here translates"),
    ],
)
def test_what_the_reader_cannot_do_is_refused(
    languages: tuple[str, ...], options: dict[str, Any], message: str
) -> None:
    """The refusal says what there is."""
    with pytest.raises(StreamError, match=message):
        recogniser(Reader(languages=languages)).open(1, StreamOptions(**options))


def test_a_reader_that_fails_is_asked_again() -> None:
    """There is nobody else who could read the segment."""
    reader = Reader(fails=2)
    one = recogniser(reader)
    one.open(1, StreamOptions(language="de", partials=False))
    events: list[StreamEvent] = []
    chunks = [Chunk(1, piece) for piece in SPOKEN] + [Chunk(1, NOTHING, end=True)]
    while chunks:
        if one.waits_for(1):
            assert all(error is None for _, error in one.work(0.1))
            continue
        for _, answer in one.step_without_waiting([chunks.pop(0)]):
            assert not isinstance(answer, StreamError)
            if isinstance(answer, Chunk):
                chunks.insert(0, answer)
            else:
                events += answer
    assert text(events) == "bag head cage bad gab"
    assert len(reader.asked) == 4


def test_a_stream_without_an_answer_fails() -> None:
    """So the service begins it again elsewhere, and no words are lost."""
    reader = Reader()
    reader.waits = True
    one = recogniser(reader)
    one.open(1, StreamOptions(language="de", partials=False))
    answers = [answer for piece in SPOKEN for _, answer in one.step([Chunk(1, piece)])]
    assert any(isinstance(answer, StreamError) and "did not answer in time" in str(answer) for answer in answers)


# Partials with the words of the reader.


@pytest.mark.parametrize("options", [{}, {"written": True, "dictation": True}])
def test_partials_have_the_words_of_the_reader(options: dict[str, Any]) -> None:
    """Text that two readings agree on is stable: later partials begin with it, and so does the final."""
    events = hear(recogniser(Reader()), steps(LONG), StreamOptions(language="de", **options))
    shown = partials(events)
    assert max(partial.stable for partial in shown) > 0
    stable = ""
    for event in events:
        if isinstance(event, Partial):
            assert event.text.startswith(stable)
            stable = event.text[: event.stable]
        elif isinstance(event, Final):
            assert event.text.startswith(stable)
            stable = ""


def test_partials_of_english_begin_with_the_words_of_the_reader() -> None:
    """What it has not heard yet comes from the first pass, so nothing is shown later than without it."""
    reader = Reader()
    wanted = StreamOptions.from_dict({"second_pass": "reader", "partials": "reader"}, [320], ["lexicon"])
    events = hear(recogniser(reader), steps(LONG), wanted)
    assert text(events) == " ".join(["bag head cage bad gab had dead"] * 5)
    plain = hear(recogniser(Reader()), steps(LONG), StreamOptions(second_pass=True, reader=True))
    assert partials(events)[0] == partials(plain)[0]
    assert len(reader.asked) > 2
    assert any(partial.stable for partial in partials(events))
    assert all(partial.stable == 0 for partial in partials(plain))


def test_without_partials_nothing_is_read_early() -> None:
    """Only ended segments are read."""
    reader = Reader()
    hear(recogniser(reader), steps(SPOKEN), StreamOptions(language="de", partials=False))
    assert len(reader.asked) == 2


def _words(line: str) -> tuple[HypothesisWord, ...]:
    return tuple(HypothesisWord(word, 10 * at, 10 * at + 8, 0.9) for at, word in enumerate(line.split()))


def test_kept_words_stay() -> None:
    """Where other words disagree with them, those that are mostly later follow."""
    assert follow((), _words("a b")) == _words("a b")
    assert [word.text for word in follow(_words("a b"), _words("a b c"))] == ["a", "b", "c"]
    assert [word.text for word in follow(_words("a b"), _words("x y c d"))] == ["a", "b", "c", "d"]


class _Lines:
    """Reads one line after the other, each word in 0.4 s."""

    present, languages = True, ("de",)

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    def ready(self) -> bool:
        return True

    def begin(self, *given: object) -> PendingReading:
        line = self._lines.pop(0).split()
        words = tuple(TimedWord(word, 400 * at, 400 * at + 300, 0.9) for at, word in enumerate(line))
        return _Pending(Reading(" ".join(line), words=words), waits=False)


def test_what_two_readings_agree_on_is_stable() -> None:
    """The last second of a reading may still change, and what is stable is not taken back."""
    reader: Any = _Lines("a b c", "a b x", "z y c d e", "")
    growing = GrowingSegment(ReaderPass(reader, None, None, None), TIMED)  # type: ignore[arg-type]
    shown = []
    for number, seconds in enumerate((1.3, 1.7, 2.4, 3.0)):
        samples = np.zeros(int(seconds * RATE), np.int16)
        growing.read(HeardSegment(samples, np.zeros((0, 0), np.float32), 320, ()), float(number))
        assert growing.take(number + 0.25)
        found = growing.hypothesis(Hypothesis((), 0))
        shown.append((" ".join(word.text for word in found.words), found.stable))
    assert shown == [("a b c", 0), ("a b x", 2), ("a b c d e", 2), ("a b", 2)]
    assert growing.took_s == 0.25
    growing.begin()
    assert growing.hypothesis(Hypothesis((), 0)).words == ()


class _Stream:
    def __init__(self, reader: Any) -> None:
        self.growing = GrowingSegment(ReaderPass(reader, None, None, None), TIMED)  # type: ignore[arg-type]
        self.wants_reading = True

    def read_growing(self, now: float) -> None:
        self.growing.read(HeardSegment(np.zeros(RATE, np.int16), np.zeros((0, 0), np.float32), 320, ()), now)


def test_one_segment_is_read_at_a_time_and_ended_ones_come_first() -> None:
    """Streams take turns, and after each reading the reader rests as long as it took."""
    now = [10.0]
    reader = Reader()
    reader.waits = True
    streams = [_Stream(reader), _Stream(reader)]
    growing = Growing(lambda: now[0])
    growing.go_on(streams, streams, waiting=True)
    assert reader.asked == []
    growing.go_on(streams, streams, waiting=False)
    growing.go_on(streams, streams, waiting=False)
    assert len(reader.asked) == 1
    now[0] = 12.0
    reader.answer()
    growing.go_on(streams, streams, waiting=False)
    assert len(reader.asked) == 1
    now[0] = 14.0
    growing.go_on(streams, streams, waiting=False)
    assert [stream.growing.begun_at for stream in streams] == [10.0, 14.0]
