"""The words of a reading in a segment: their frames, figures as they were said, and hotwords."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.engine.language.lexicon import Lexicon
from streamer.engine.reader.alignment import Aligner, Alignment
from streamer.engine.reader.gate import Gate
from streamer.engine.reader.reader_pass import HeardSegment, ReaderPass, found_hotwords
from streamer.engine.reader.reading import Reading, Token
from streamer.engine.reader.segment_reader import PendingReading, ReaderError
from streamer.engine.search.search import Hotword, HypothesisWord
from streamer.engine.text.marks import Case, Mark
from streamer.engine.waiting import OutsideWork
from streamer.testing.exact_speech import UNITS

FRAME = 640
BELIEVED, DOUBTED = Gate(1.0, 0, 0, 0, 0), Gate(-1.0, 0, 0, 0, 0)
LEXICON = "it was in nineteen eighty four one thousand nine hundred and eight a b cat cab bag hello twenty first"


class SpokenReading:
    """A reading that is under way for some looks, and may fail."""

    def __init__(self, reading: Reading | None, looks: int) -> None:
        self.reading, self.looks = reading, looks

    def ready(self) -> bool:
        self.looks -= 1
        return self.looks < 0

    def result(self) -> Reading:
        assert self.looks < 0
        if self.reading is None:
            raise ReaderError("it has died")
        return self.reading


class SlowReader:
    """Reads the same in every segment, after some looks. There is room after some more."""

    present = True

    def __init__(self, reading: Reading | None, busy: int = 0, looks: int = 0) -> None:
        self.reading, self.busy, self.looks = reading, busy, looks
        self.heard: list[tuple[int, list[tuple[int, int]]]] = []

    def ready(self) -> bool:
        self.busy -= 1
        return self.busy < 0

    def begin(self, samples: NDArray[np.int16], pauses: Sequence[tuple[int, int]]) -> PendingReading:
        assert self.busy < 0
        self.heard.append((len(samples), list(pauses)))
        return SpokenReading(self.reading, self.looks)


def aligner() -> Aligner:
    """An aligner that knows the words above by their letters."""
    words = sorted(set(LEXICON.split()))
    units = ["|" if unit == " " else unit for unit in UNITS]
    spelled = [(number, tuple(UNITS.index(letter) for letter in word)) for number, word in enumerate(words)]
    return Aligner(Lexicon.build(spelled, np.zeros(len(words))), words, units)


def phones_of(text: str) -> NDArray[np.float32]:
    """Log-probabilities of spoken letters: two frames for each, and a blank after it."""
    line = [0] + [unit for letter in text for unit in (UNITS.index(letter), UNITS.index(letter), 0)] + [0]
    rows = np.full((len(line), len(UNITS)), -9.0, np.float32)
    rows[range(len(line)), line] = -0.05
    return rows


def segment(said: str, first: Sequence[HypothesisWord] = (), *hotwords: Hotword) -> HeardSegment:
    phones = phones_of(said)
    words = tuple(first) or words_at(said)
    return HeardSegment(np.zeros(len(phones) * FRAME, np.int16), phones, FRAME, words, hotwords)


def words_at(said: str, confidence: float = 0.9) -> tuple[HypothesisWord, ...]:
    """The words of a text in the frames in which `phones_of` has them."""
    words, at = [], 1
    for word in said.split():
        words.append(HypothesisWord(word, at, at + 3 * len(word) - 1, confidence, 0.9))
        at += 3 * (len(word) + 1)
    return tuple(words)


def reading(text: str, log_probability: float = -0.01, **about: Any) -> Reading:
    return Reading(text, tuple(Token(f" {word}", log_probability) for word in text.split()), log_probability, **about)


def words_of(read: Reading, heard: HeardSegment, gate: Gate = BELIEVED) -> tuple[HypothesisWord, ...]:
    return ReaderPass(SlowReader(read), aligner(), gate).words_of(read, heard)


def text(words: Sequence[HypothesisWord]) -> str:
    return " ".join(word.text for word in words)


def test_words_have_frames_marks_and_probabilities() -> None:
    """A word lies where its phones were heard; both witnesses speak for it, and it has its mark and capitals."""
    heard = segment("hello cat")
    first, second = words_of(reading("Hello, cat.", -0.5), heard)
    assert [(word.start, word.end) for word in (first, second)] == [(word.start, word.end) for word in heard.words]
    assert (first.text, second.text) == ("hello", "cat")
    assert first.confidence == pytest.approx(math.exp(-0.05))
    assert first.share == pytest.approx(math.exp(-0.5))
    assert first.marked is not None
    assert (first.marked.mark, first.marked.case) == (Mark.COMMA, Case.FIRST)
    assert second.marked is not None
    assert (second.marked.mark, second.marked.case) == (Mark.FULL_STOP, Case.LOWER)


@pytest.mark.parametrize(
    "said",
    [
        "it was in nineteen eighty four",
        "it was in one thousand nine hundred eighty four",
        "it was in one thousand nine hundred and eighty four",
        "it was in one nine eight four",
    ],
)
def test_figures_are_said_as_they_were_heard(said: str) -> None:
    """The same figures have the words that were said."""
    found = words_of(reading("It was in 1984."), segment(said))
    assert text(found) == said
    last = found[-1].marked
    assert last is not None
    assert last.mark is Mark.FULL_STOP


def test_initials_are_spelled_if_they_were() -> None:
    """Capitals that are a word may be spelled."""
    assert text(words_of(reading("CAB"), segment("cab"))) == "cab"
    assert text(words_of(reading("AB"), segment("a b"))) == "a b"


def test_many_figures_take_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading of very many figures is compared only so often, and still has its words."""
    one = ReaderPass(SlowReader(None), aligner(), BELIEVED)
    asked: list[Sequence[str]] = []
    align = one.aligner.align

    def counted(words: Sequence[str], phones: NDArray[np.float32]) -> Alignment | None:
        asked.append(words)
        return align(words, phones)

    monkeypatch.setattr(one.aligner, "align", counted)
    heard = segment("nineteen eighty four " * 30)
    found = one.words_of(reading("1984 " * 30), heard)
    assert text(found) == ("nineteen eighty four " * 30).strip()
    assert len(asked) < 30


@pytest.mark.parametrize(
    "read", ["", ".", "\u266a ...", "hello " * 60, "\u4e2d\u6587"], ids=["nothing", "mark", "note", "long", "unknown"]
)
def test_a_reading_without_words_that_fit_is_not_used(read: str) -> None:
    """Nothing, marks alone, and more words than the segment has room for leave the segment to the second pass."""
    found = words_of(reading(read), segment("cat"), Gate(5.0, 0, 1.0, 0, 0))
    assert found == ()


def test_a_reading_that_did_not_end_by_itself_is_not_used() -> None:
    """A reader that runs in circles is not believed, whatever it has read before."""
    assert words_of(reading("cat", complete=False), segment("cat")) == ()
    assert words_of(reading("cat"), segment("cat"), DOUBTED) == ()


def test_the_gate_hears_how_well_words_fit() -> None:
    """Words that fit the phones better than those of the first pass gain, and others lose."""
    heard = segment("cat", words_at("cab"))
    one = ReaderPass(SlowReader(None), aligner(), BELIEVED)
    for said, better in (("cat", True), ("bag", False)):
        read = reading(said)
        words = one.words_of(read, heard)
        alignment = one.aligner.align([said], heard.phones)
        assert alignment is not None
        fit = one.evidence(read, words, alignment, heard).fit
        assert (fit > 0) == better


@pytest.mark.parametrize(
    ("sure", "weight", "kept"),
    [(-0.0001, 1.0, False), (-1.0, 1.0, True), (-1.0, 0.0, False), (-0.02, 0.1, False), (-0.02, 5.0, True)],
)
def test_a_hotword_stays_unless_the_reader_is_sure(sure: float, weight: float, kept: bool) -> None:
    """A hotword of the first pass replaces what was read there, if it is likelier with its weight."""
    heard = segment("hello cab", (), Hotword("Cab", weight))
    heard.phones[:, UNITS.index("t")] = heard.phones[:, UNITS.index("b")]  # nobody could hear the difference
    found = words_of(reading("Hello Cat.", sure), heard)
    assert text(found) == ("hello cab" if kept else "hello cat")
    marked = found[-1].marked
    assert marked is not None
    assert marked.mark is Mark.FULL_STOP
    # A hotword is written as it was given, whatever the reader wrote.
    assert marked.case is (Case.LOWER if kept else Case.FIRST)


def test_phones_speak_for_a_hotword_too() -> None:
    """A hotword that was heard clearly stays, and one that nobody could hear goes."""
    for said, kept in (("hello cab", True), ("hello bag", False)):
        heard = segment(said, words_at("hello cab"), Hotword("cab", 1.0))
        found = words_of(reading("hello bag", -0.0001), heard)
        assert text(found) == ("hello cab" if kept else "hello bag")


def test_a_hotword_that_was_read_stays_as_it_was_read() -> None:
    """Where the reader has the hotword too, nothing is replaced."""
    heard = segment("hello cab", (), Hotword("cab", 5.0))
    assert words_of(reading("Hello CAB.", -2.0), heard) == words_of(reading("Hello CAB.", -2.0), segment("hello cab"))


def test_hotwords_of_several_words() -> None:
    """A phrase replaces all words that were read in its frames, and the mark stays at its end."""
    heard = segment("it was a cab", (), Hotword("a cab", 5.0))
    found = words_of(reading("It was bag?", -2.0), heard)
    assert text(found) == "it was a cab"
    assert [word.marked.mark for word in found if word.marked] == [Mark.NONE] * 3 + [Mark.QUESTION]
    assert [word.start for word in found] == sorted(word.start for word in found)


def test_where_hotwords_are() -> None:
    """Longer phrases come first, and none overlap; those of weight 0 and of other words are not found."""
    words = words_at("new york new york city a b")
    hotwords = [Hotword("york", 1.0), Hotword("New York City", 2.0), Hotword("a", 0.0), Hotword("c", 1.0)]
    assert found_hotwords(words, hotwords) == [(1, 2, 1.0), (2, 5, 2.0)]
    assert found_hotwords((), hotwords) == []


class Parts:
    """The parts of some work, and then its result."""

    def __init__(self, work: OutsideWork[tuple[HypothesisWord, ...]]) -> None:
        self._work = work
        self.result: tuple[HypothesisWord, ...] = ()

    def __iter__(self) -> Iterator[object]:
        self.result = yield from self._work


def run(one: ReaderPass, heard: HeardSegment) -> tuple[list[object], tuple[HypothesisWord, ...]]:
    """What the work waits for, and its result."""
    work = Parts(one.read(heard))
    return list(work), work.result


def test_it_waits_for_a_place_and_for_the_reading() -> None:
    """The work yields what it waits for, so that others get the time."""
    reader = SlowReader(reading("cat"), busy=2, looks=3)
    awaited, words = run(ReaderPass(reader, aligner(), BELIEVED), segment("cat"))
    assert [type(each) for each in awaited if each] == [SlowReader] * 2 + [SpokenReading] * 3
    assert awaited[:5] == [each for each in awaited if each]
    assert text(words) == "cat"


def test_alignments_are_done_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work rests after each alignment, so that other streams are computed between them."""
    heard = segment("it was in nineteen eighty four cab", (), Hotword("cab", 5.0))
    one = ReaderPass(SlowReader(reading("It was in 1984 bag", -1.0)), aligner(), BELIEVED)
    align, parts = one.aligner.align, [0]

    def counted(words: Sequence[str], phones: NDArray[np.float32]) -> Alignment | None:
        parts[-1] += 1
        return align(words, phones)

    monkeypatch.setattr(one.aligner, "align", counted)
    for _ in (work := Parts(one.read(heard))):
        parts.append(0)
    assert text(work.result) == "it was in nineteen eighty four cab"
    assert sum(parts) > 5
    assert max(parts) == 1


def test_a_segment_that_was_not_read_has_no_words() -> None:
    """A reader that fails leaves the segment to the second pass."""
    assert run(ReaderPass(SlowReader(None, looks=1), aligner(), BELIEVED), segment("cat"))[1] == ()


def test_a_long_segment_may_be_cut_in_its_pauses() -> None:
    """The reader is told the samples of the pauses between words, but not of short ones."""
    words = tuple(HypothesisWord("a", start, end, 0.9) for start, end in ((1, 4), (5, 9), (14, 20), (24, 30)))
    reader = SlowReader(reading("a a a a"))
    heard = segment("a " * 20, words)
    run(ReaderPass(reader, aligner(), BELIEVED), heard)
    assert reader.heard == [(len(heard.samples), [(9 * FRAME, 14 * FRAME)])]
