"""The words of a reading in a segment: their frames, figures as they were said, and hotwords."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.engine.language.lexicon import Lexicon
from streamer.engine.reader.alignment import Aligner, Alignment
from streamer.engine.reader.combination import Mixture, Mixtures
from streamer.engine.reader.differences import characters, other_words
from streamer.engine.reader.reader_pass import HeardSegment, ReaderPass, found_hotwords
from streamer.engine.reader.reading import Difference, Reading, ReadingOptions, Token
from streamer.engine.reader.reading_words import written_words
from streamer.engine.reader.segment_reader import PendingReading, ReaderError
from streamer.engine.search.search import Hotword, HypothesisWord
from streamer.engine.text.marks import Case, Mark
from streamer.engine.waiting import OutsideWork
from streamer.testing.exact_speech import UNITS

FRAME = 640
BELIEVED, DOUBTED = Mixture(-9.0), Mixture(9.0)
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
    languages = ("en",)

    def __init__(self, reading: Reading | None, busy: int = 0, looks: int = 0) -> None:
        self.reading, self.busy, self.looks = reading, busy, looks
        self.heard: list[tuple[int, list[tuple[int, int]], list[str]]] = []

    def ready(self) -> bool:
        self.busy -= 1
        return self.busy < 0

    def begin(
        self,
        samples: NDArray[np.int16],
        pauses: Sequence[tuple[int, int]],
        words: Sequence[str],
        options: ReadingOptions,
    ) -> PendingReading:
        assert self.busy < 0
        self.heard.append((len(samples), list(pauses), list(words)))
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


def compared(read: Reading, words: str, gain: float = 0.0, own: float = -0.1) -> Reading:
    """A reading compared with these words. The reader finds each difference as likely."""
    written = written_words(read.tokens, aligner().knows)
    places = [(*characters(written, other), other.words) for other in other_words(written, words.split())]
    return replace(read, differences=tuple(Difference(*place, own, gain) for place in places))


def words_of(read: Reading, heard: HeardSegment, mixture: Mixture = BELIEVED) -> tuple[HypothesisWord, ...]:
    return ReaderPass(SlowReader(read), aligner(), None, Mixtures({0: mixture})).words_of(read, heard)


def text(words: Sequence[HypothesisWord]) -> str:
    return " ".join(word.text for word in words)


def test_words_have_frames_marks_and_probabilities() -> None:
    """A word lies where its phones were heard; both witnesses speak for it, and it has its mark and capitals."""
    heard = segment("hello cat")
    first, second = words_of(reading("Hello, cat.", -0.5), heard)
    assert [(word.start, word.end) for word in (first, second)] == [(word.start, word.end) for word in heard.words]
    assert (first.text, second.text) == ("hello", "cat")
    assert first.confidence == pytest.approx(math.exp(-0.05))
    # Both the reader and the first pass have the words, so they are likelier than each says.
    assert first.share == pytest.approx(1 / (1 + (math.exp(0.5) - 1) * (1 / 0.9 - 1)))
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
    one = ReaderPass(SlowReader(None), aligner(), None, Mixtures({0: BELIEVED}))
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
    assert words_of(compared(reading(read), "cat"), segment("cat"), Mixture(0.0, fit=1.0)) == ()


def test_a_reading_that_did_not_end_by_itself_is_not_used() -> None:
    """A reader that runs in circles is not believed, whatever it has read before."""
    assert words_of(reading("cat", complete=False), segment("cat")) == ()


def test_each_difference_is_decided_by_itself() -> None:
    """Words of the recogniser are taken where the mixture likes them better, and only there."""
    heard = segment("it was a cab in a bag")
    heard.phones[:, UNITS.index("t")] = heard.phones[:, UNITS.index("b")]
    read = compared(reading("It was a cat in a cab."), "it was a cab in a bag")
    assert text(words_of(read, heard, Mixture(0.0, fit=1.0))) == "it was a cat in a bag"
    assert text(words_of(read, heard)) == "it was a cat in a cab"
    likelier = [replace(read.differences[0], gain=3.0), replace(read.differences[1], gain=-3.0)]
    read = replace(read, differences=tuple(likelier))
    assert text(words_of(read, heard, Mixture(0.0, gain=1.0))) == "it was a cab in a cab"


def test_words_of_both_have_marks_frames_and_odds() -> None:
    """A word that is taken has the mark and the capital of what it replaces, and its own frames."""
    heard = segment("it was a cab in a bag")
    read = compared(reading("It was a Cat, in a cab."), "it was a cab in a bag", gain=1.0)
    read = replace(read, differences=(read.differences[0], replace(read.differences[1], gain=-1.0)))
    found = words_of(read, heard, Mixture(0.0, gain=1.0))
    assert text(found) == "it was a cab in a cab"
    taken, other = found[3], found[6]
    assert taken.marked is not None
    assert (taken.marked.mark, taken.marked.case) == (Mark.COMMA, Case.FIRST)
    assert (taken.start, taken.end) == (heard.words[3].start, heard.words[3].end)
    assert taken.share == pytest.approx(0.9 / (1 + math.exp(-1.0)))
    assert other.share == pytest.approx(math.exp(-0.01) / (1 + math.exp(-1.0)))
    assert max(taken.share, other.share) < found[0].share


def test_a_reading_that_loses_everywhere_adds_nothing() -> None:
    """Where a reading is far from the words of the first pass and all of them are better, the second pass reads."""
    read = compared(reading("hello bag"), "hello cab")
    assert words_of(read, segment("hello cab"), DOUBTED) == ()
    assert text(words_of(compared(reading("hello cab"), "hello cab"), segment("hello cab"), DOUBTED)) == "hello cab"


def test_a_near_reading_that_loses_everywhere_gives_its_marks() -> None:
    """Where both have nearly the same words, those of the first pass are final: a second pass would add only time."""
    read = compared(reading("It was a cat, in a bag."), "it was a cab in a bag")
    found = words_of(read, segment("it was a cab in a bag"), DOUBTED)
    assert text(found) == "it was a cab in a bag"
    assert found[3].marked is not None
    assert found[3].marked.mark is Mark.COMMA


def test_a_difference_that_is_none_is_left_out() -> None:
    """A reader that names other places, or figures that were said like this, change nothing."""
    said = "it was in nineteen eighty four"
    read = reading("It was in 1984.")
    odd = Difference(4, 6, ("is",)), Difference(11, 15, tuple(said.split()[3:]))
    assert text(words_of(replace(read, differences=odd), segment(said), DOUBTED)) == said


def test_a_difference_may_remove_and_insert_words() -> None:
    """Words that only one side has come and go."""
    heard = segment("it was a cab hello")
    read = compared(reading("It was in a cab."), "it was a cab hello", gain=1.0)
    found = words_of(read, heard, Mixture(0.0, gain=1.0, longer=-2.0))
    assert text(found) == "it was a cab"
    found = words_of(read, heard, Mixture(0.0, gain=1.0, longer=2.0))
    assert text(found) == "it was in a cab hello"


@pytest.mark.parametrize(
    ("constant", "weight", "kept"), [(-9.0, 1.0, False), (-2.0, 1.0, True), (-2.0, 0.0, False), (-9.0, 5.0, True)]
)
def test_a_hotword_rather_stays(constant: float, weight: float, kept: bool) -> None:
    """A hotword of the first pass is likelier by its weight, and is written as it was given."""
    heard = segment("hello it was a cab", (), Hotword("Cab", weight))
    found = words_of(compared(reading("Hello, it is a Cat."), "hello it was a cab"), heard, Mixture(constant))
    assert text(found) == ("hello it is a cab" if kept else "hello it is a cat")
    marked = found[-1].marked
    assert marked is not None
    assert marked.mark is Mark.FULL_STOP
    assert marked.case is (Case.LOWER if kept else Case.FIRST)


class Opinion:
    """A language model that finds all other words as likely."""

    def __init__(self, gain: float) -> None:
        self._gain = gain

    def line(self, words: Sequence[str]) -> Opinion:
        return self

    def gain(self, first: int, last: int, others: Sequence[str]) -> float:
        return self._gain


@pytest.mark.parametrize("gain", [-9.0, 1.0])
def test_the_language_model_says_nothing_against_a_hotword(gain: float) -> None:
    """It may speak for a hotword, but it never expects one, so what it says against it does not count."""
    one: Any = Opinion(gain)
    read = compared(reading("Hello, it is a cat."), "hello it was a cab")
    mixtures = Mixtures({0: Mixture(-3.0, language=1.0)})
    heard = segment("hello it was a cab", (), Hotword("cab", 1.0))
    found = text(ReaderPass(SlowReader(read), aligner(), one, mixtures).words_of(read, heard))
    assert found == "hello it is a cab"


def test_a_hotword_that_only_the_reader_has_stays() -> None:
    """The weight speaks for the side that has the hotword, whichever that is."""
    heard = segment("it was a cat", (), Hotword("a cab", 2.0))
    read = compared(reading("It is a cab."), "it was a cat")
    assert text(words_of(read, heard, Mixture(3.0))) == "it was a cab"


def test_hotwords_of_several_words_may_be_partly_the_same() -> None:
    """A phrase counts as a whole, also where both sides have a part of it."""
    heard = segment("it was a cab", (), Hotword("a cab", 2.0))
    found = words_of(compared(reading("It is a bag?"), "it was a cab"), heard, Mixture(-3.0))
    assert text(found) == "it is a cab"


def test_where_hotwords_are() -> None:
    """Longer phrases come first, and none overlap; those of weight 0 and of other words are not found."""
    words = words_at("new york new york city a b")
    hotwords = [Hotword("york", 1.0), Hotword("New York City", 2.0), Hotword("a", 0.0), Hotword("c", 1.0)]
    assert found_hotwords([word.text for word in words], hotwords) == [(1, 2, 1.0), (2, 5, 2.0)]
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
    awaited, words = run(ReaderPass(reader, aligner(), None, Mixtures({0: BELIEVED})), segment("cat"))
    assert [type(each) for each in awaited if each] == [SlowReader] * 2 + [SpokenReading] * 3
    assert awaited[:5] == [each for each in awaited if each]
    assert text(words) == "cat"


def test_alignments_are_done_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work rests after each alignment, so that other streams are computed between them."""
    heard = segment("it was in nineteen eighty four cab", (), Hotword("cab", 5.0))
    read = compared(reading("It is in 1984 bag", -1.0), "it was in nineteen eighty four cab")
    one = ReaderPass(SlowReader(read), aligner(), None, Mixtures({0: BELIEVED}))
    align, parts = one.aligner.align, [0]

    def counted(words: Sequence[str], phones: NDArray[np.float32]) -> Alignment | None:
        parts[-1] += 1
        return align(words, phones)

    monkeypatch.setattr(one.aligner, "align", counted)
    for _ in (work := Parts(one.read(heard))):
        parts.append(0)
    assert text(work.result) == "it is in nineteen eighty four cab"
    assert sum(parts) > 5
    assert max(parts) == 1


def test_a_segment_that_was_not_read_has_no_words() -> None:
    """A reader that fails leaves the segment to the second pass."""
    assert run(ReaderPass(SlowReader(None, looks=1), aligner(), None, Mixtures({0: BELIEVED})), segment("cat"))[1] == ()


def test_a_long_segment_may_be_cut_in_its_pauses() -> None:
    """The reader is told the samples of the pauses between words, but not of short ones."""
    words = tuple(HypothesisWord("a", start, end, 0.9) for start, end in ((1, 4), (5, 9), (14, 20), (24, 30)))
    reader = SlowReader(reading("a a a a"))
    heard = segment("a " * 20, words)
    run(ReaderPass(reader, aligner(), None, Mixtures({0: BELIEVED})), heard)
    assert reader.heard == [(len(heard.samples), [(9 * FRAME, 14 * FRAME)], ["a"] * 4)]
