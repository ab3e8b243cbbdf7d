"""Streams whose ended segments a reader reads: scripted readers with an exact model, and the real one with ours."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.base.events import Final, Heard, ReadBy, StreamEvent
from streamer.base.limits import READER
from streamer.engine.acoustics.streaming_model import Emissions, ModelState
from streamer.engine.bundle import load_recogniser
from streamer.engine.endpointing import EndpointRule
from streamer.engine.reader.alignment import Aligner
from streamer.engine.reader.combination import Mixture, Mixtures
from streamer.engine.reader.differences import characters, other_words
from streamer.engine.reader.reader import load_reader
from streamer.engine.reader.reader_pass import ReaderPass
from streamer.engine.reader.reading import Difference, Reading, ReadingOptions, Token
from streamer.engine.reader.reading_words import written_words
from streamer.engine.reader.segment_reader import LocalReader, PendingReading, ReaderError, SegmentReader
from streamer.engine.recogniser import PHONES, Chunk, Recogniser
from streamer.engine.search.search import Hotword
from streamer.engine.stream_events import StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.calibration import Calibration, StepCalibration
from streamer.engine.waiting import PREPARATION_LIMIT_S, Wait, Work
from streamer.models.readers import find_reader
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_reader import BELIEVED, PHONE_UNITS, SpelledLetters, letters_of
from streamer.testing.exact_speech import UNITS, say, silence
from tests.engine.exact_streams import NOTHING, hear, hear_together, lexicon_search, pieces, text
from tests.project import BUNDLE
from tests.samples import pcm

if TYPE_CHECKING:
    from streamer.engine.language.lexicon import Lexicon

DOUBTED = Mixture(5.0)
READ = StreamOptions(second_pass=True, reader=True)
WORDS = "bag bah bad head gead cage cahe cade gab hab dab"
SPOKEN = [say("bag"), silence(1500), say("head cage"), silence(200)]
G, H, D = (UNITS.index(letter) for letter in "ghd")


class HastyModel(ExactModel):
    """Hears each g as an h in steps, and each g as a d in whole segments. It has phones, which are letters."""

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        letters = super().step(state, slots, samples)["characters"]
        heard = letters.copy()
        heard[..., [G, H]] = letters[..., [H, G]]
        both = np.maximum(letters, heard)  # what was said is nearly as likely
        return {"characters": heard, PHONES: both}

    def whole(self, samples: NDArray[np.int16]) -> Work[Emissions]:
        letters = (yield from super().whole(samples))["characters"]
        letters[..., [G, D]] = letters[..., [D, G]]
        return {"characters": letters, PHONES: letters}


class Script:
    """Reads the letters of the samples, with a capital and a full stop, in some looks. It may be away, or fail."""

    def __init__(self, *, present: bool = True, fails: bool = False, looks: int = 0, rooms: int = 2) -> None:
        self.present, self.fails, self.looks, self.rooms = present, fails, looks, rooms
        self.languages = ("en",)
        self.gain = 0.0  # how much likelier it finds other words
        self.under_way = 0
        self.read: list[str] = []
        self.dice = random.Random(1)

    def ready(self) -> bool:
        return self.under_way < self.rooms

    def begin(
        self,
        samples: NDArray[np.int16],
        pauses: Sequence[tuple[int, int]],
        words: Sequence[str],
        options: ReadingOptions,
    ) -> PendingReading:
        assert self.ready()
        self.under_way += 1
        self.read.append(letters_of(samples))
        return _Pending(self, self.read[-1].capitalize() + ".", words)


class _Pending:
    """What the script reads in a segment."""

    def __init__(self, script: Script, line: str, words: Sequence[str]) -> None:
        self._script, self._line, self._words = script, line, words
        self._left = script.dice.randint(0, script.looks) if script.looks < 1000 else script.looks

    def ready(self) -> bool:
        self._left -= 1
        return self._left < 0

    def result(self) -> Reading:
        self._script.under_way -= 1
        if self._script.fails:
            raise ReaderError("the process has died")
        tokens = tuple(Token(f" {word}", -0.2) for word in self._line.split())
        written = written_words(tokens, lambda word: True)
        others = [(*characters(written, one), one.words) for one in other_words(written, self._words)]
        differences = tuple(Difference(*other, -0.2, self._script.gain) for other in others)
        return Reading(self._line, tokens, -0.2, differences=differences)


def spelled() -> tuple[Lexicon, list[str]]:
    """Return a lexicon of words that are pronounced by their letters, and these words."""
    from streamer.engine.language.lexicon import Lexicon

    words = sorted(WORDS.split())
    ways = [(number, tuple(UNITS.index(letter) for letter in word)) for number, word in enumerate(words)]
    return Lexicon.build(ways, np.zeros(len(words))), words


def make(reader: SegmentReader, mixture: Mixture = BELIEVED, **options: object) -> Recogniser:
    lexicon, words = spelled()
    letters: Any = SpelledLetters()
    slots = 32
    return Recogniser(
        HastyModel(),
        {"lexicon": lexicon_search(WORDS, slots)},
        slots=slots,
        reader_pass=ReaderPass(reader, Aligner(lexicon, words, PHONE_UNITS, letters), None, Mixtures({0: mixture})),
        **options,  # type: ignore[arg-type]
    )


def finals(events: Sequence[StreamEvent]) -> list[Final]:
    return [event for event in events if isinstance(event, Final)]


def read_by(events: Sequence[StreamEvent]) -> list[ReadBy | None]:
    return [event.read_by for event in finals(events)]


def served(
    recogniser: Recogniser, feeds: Sequence[tuple[Sequence[NDArray[np.int16]], StreamOptions]], dice: random.Random
) -> list[list[StreamEvent]]:
    """Return the events of streams that are fed at random, as the service does: what waits for a reader waits."""
    due = [
        [*(Chunk(stream, piece) for piece in own), Chunk(stream, NOTHING, end=True)]
        for stream, (own, _) in enumerate(feeds)
    ]
    events: list[list[StreamEvent]] = [[] for _ in feeds]
    for stream, (_, options) in enumerate(feeds):
        recogniser.open(stream, options)
    while any(due):
        able = [stream for stream, chunks in enumerate(due) if chunks and not recogniser.waits_for(stream)]
        if not able or dice.random() < 0.5:
            assert all(error is None for _, error in recogniser.work())
            continue
        chunks = [due[stream].pop(0) for stream in dice.sample(able, dice.randint(1, len(able)))]
        for index, answer in recogniser.step_without_waiting(chunks):
            assert not isinstance(answer, StreamError), answer
            if isinstance(answer, Chunk):
                due[answer.stream].insert(0, answer)
            else:
                events[chunks[index].stream] += [event for event in answer if not isinstance(event, Heard)]
    return events


def one_served(reader: SegmentReader, options: StreamOptions = READ, **about: object) -> list[StreamEvent]:
    """The events of a stream, with a reader that may be slow."""
    [events] = served(make(reader, **about), [(SPOKEN, options)], random.Random(1))  # type: ignore[arg-type]
    return events


def test_finals_have_the_words_of_the_reader() -> None:
    """The first pass hears h, the second d, and the reader what was said: finals have its words and say so."""
    reader = Script()
    events = one_served(reader)
    assert text(events) == "bag head cage"
    assert read_by(events) == [ReadBy.READER] * 2
    assert reader.read == ["bag", "head cage"]
    twice = one_served(Script(), StreamOptions(second_pass=True))
    assert (text(twice), read_by(twice)) == ("bad hea cade", [ReadBy.SECOND_PASS] * 2)


@pytest.mark.parametrize("step_ms", [160, 320, 640])
def test_it_hears_nothing_of_the_next_segment(step_ms: int) -> None:
    """Wherever the next word begins in the step that ends a segment, no reading has a part of it."""
    reader = Script()
    pauses = range(800, 1600, 40)
    streams = [([say("bag"), silence(pause), say("head")], replace(READ, step_ms=step_ms)) for pause in pauses]
    events = hear_together(make(reader), streams)
    assert {text(own) for own in events} == {"bag head"}
    assert set(reader.read) <= {"bag", "head", "bag head"}


def test_the_written_form_has_its_marks() -> None:
    """Marks and capitals of the reader are in the final; partials are those of the first pass."""
    events = one_served(Script(), replace(READ, written=True))
    assert [final.text for final in finals(events)] == ["Bag.", "Head cage."]
    assert [final.spoken for final in finals(events)] == ["bag", "head cage"]


def test_words_have_times_in_order_inside_the_segment() -> None:
    """Times of a reader's words lie where they were said, grow, and end before the audio."""
    words = [word for final in finals(one_served(Script())) for word in final.words or ()]
    assert [word.word for word in words] == ["bag", "head", "cage"]
    times = [time for word in words for time in (word.start_ms, word.end_ms)]
    assert times == sorted(times)
    starts = [0, 360 + 120 + 1500, 360 + 120 + 1500 + 4 * 120 + 120]
    for word, start in zip(words, starts, strict=True):
        assert start <= word.start_ms <= start + 160
        assert word.start_ms < word.end_ms


def test_times_are_corrected_as_measured_for_the_reader() -> None:
    """The calibration of the reader is used for its finals, and that of the search for partials."""
    fits = {"lexicon": {320: StepCalibration()}, READER: {320: StepCalibration(start_ms=80.0, end_ms=80.0)}}
    plain, later = (
        finals(one_served(Script(), calibration=calibration))[0] for calibration in (Calibration(), Calibration(fits))
    )
    assert (later.start_ms - plain.start_ms, later.end_ms - plain.end_ms) == (80, 80)


@pytest.mark.parametrize(
    ("reader", "mixture", "options"),
    [
        (Script(present=False), BELIEVED, READ),
        (Script(fails=True, looks=3), BELIEVED, READ),
        (Script(), DOUBTED, READ),
        (Script(), BELIEVED, replace(READ, dictation=True)),
        (Script(), BELIEVED, StreamOptions(second_pass=True)),
    ],
    ids=["absent", "fails", "doubted", "dictation", "not asked for"],
)
def test_otherwise_the_second_pass_reads(reader: Script, mixture: Mixture, options: StreamOptions) -> None:
    """A reader that is away, fails, has nothing better or is not wanted leaves the segment to the second pass."""
    events = one_served(reader, options, mixture=mixture)
    assert read_by(events) == [ReadBy.SECOND_PASS] * 2
    assert finals(events) == finals(one_served(Script(), replace(options, reader=False)))
    assert reader.under_way == 0


def test_nobody_is_asked_without_a_second_pass() -> None:
    """A stream without a second pass has none by a reader."""
    reader = Script()
    events = one_served(reader, StreamOptions(reader=True))
    assert (text(events), read_by(events), reader.read) == ("bah gead cahe", [None] * 2, [])


def test_a_reader_that_is_late_leaves_the_first_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the limit, the final has the words of the first pass, whether the reader is slow or has no room."""
    monkeypatch.setattr(
        "streamer.engine.waiting.LIMITS_S", dict.fromkeys(Wait, PREPARATION_LIMIT_S) | {Wait.SECOND_PASS: 0.05}
    )
    once = finals(one_served(Script(), StreamOptions()))
    for reader in (Script(looks=10**9), Script(rooms=0)):
        events = one_served(reader)
        assert read_by(events) == [ReadBy.FIRST_PASS] * 2
        assert [replace(final, read_by=None) for final in finals(events)] == once


def test_the_first_alternative_is_the_final() -> None:
    """The alternatives begin with the reader's words, which are the likeliest, and are at most certain together."""
    options = replace(READ, alternatives=3)
    for final in finals(one_served(Script(), options)):
        assert final.alternatives is not None
        first, *others = final.alternatives
        assert first.text == final.text
        assert all(other.confidence <= first.confidence for other in others)
        assert first.confidence + sum(other.confidence for other in others) <= 1.001
    assert len(finals(one_served(Script(), options))[0].alternatives or ()) > 1


@pytest.mark.parametrize(("weight", "words"), [(5.0, "bah gead bah"), (3.0, "bah head cage"), (0.0, "bag head cage")])
def test_a_hotword_of_the_first_pass_stays(weight: float, words: str) -> None:
    """A heavy hotword that the first pass found is kept where the reader is not sure.

    The heaviest is forced into the last word as well, which it resembles in two of three letters.
    """
    options = replace(READ, hotwords=(Hotword("bah", weight),))
    events = one_served(Script(), options)
    assert text(events) == words
    assert read_by(events) == [ReadBy.READER] * 2


def test_a_cut_without_a_pause_loses_no_word() -> None:
    """If a segment ends at its greatest length, the words after the cut belong to the next one."""
    words = " ".join(["bag", "head", "cage", "gab"] * 8)
    options = replace(READ, endpoint=EndpointRule(silence=False, longest_ms=6000), written=True)
    reader = Script()
    [events] = served(make(reader), [([say(words)], options)], random.Random(1))
    assert " ".join(final.spoken or "" for final in finals(events)) == words
    assert len(finals(events)) > 1
    assert set(read_by(events)) == {ReadBy.READER}
    # The reader ends each segment with a full stop, but the speaker has not paused.
    assert "".join(final.text for final in finals(events)).count(".") == 1


def talk(seed: int) -> NDArray[np.int16]:
    """Random words of the lexicon with pauses between them."""
    dice = random.Random(seed)
    parts = [
        part
        for word in dice.choices(WORDS.split(), k=10)
        for part in (say(word), silence(dice.choice([0, 0, 0, 310, 1090, 2411])))
    ]
    return np.concatenate(parts)


def test_any_company_and_any_chunks_give_the_same_events() -> None:
    """32 streams with readings of any duration have the same events as each alone, however their audio is divided."""
    dice = random.Random(3)
    options = [
        READ,
        replace(READ, written=True, alternatives=2, hotwords=(Hotword("bah", 0.5),)),
        replace(READ, endpoint=EndpointRule(silence=False, longest_ms=6000)),
        StreamOptions(second_pass=True),
    ]
    feeds = [(talk(number // 4), options[number % 4]) for number in range(32)]
    recogniser = make(Script())
    alone = [hear(recogniser, [audio], own) for audio, own in feeds]
    reader = Script(looks=20)
    together = served(make(reader), [(pieces(audio, dice), own) for audio, own in feeds], dice)
    assert together == alone
    assert {reader for events in alone for reader in read_by(events)} >= {ReadBy.READER, ReadBy.SECOND_PASS}
    assert reader.under_way == 0


def test_a_stream_may_be_closed_while_its_segment_is_read() -> None:
    """A stream that goes while a reader has its segment leaves nothing behind, and the next one has its own words."""
    reader = Script(looks=10**9)
    recogniser = make(reader)
    recogniser.open(1, READ)
    [(_, rest)] = recogniser.step_without_waiting([Chunk(1, np.concatenate([*SPOKEN[:2]]))])
    assert isinstance(rest, Chunk)
    recogniser.work()
    assert (recogniser.waits_for(1), reader.read) == (Wait.SECOND_PASS, ["bag"])
    recogniser.close(1)
    reader.looks = reader.under_way = 0
    assert (recogniser.waits_for(1), recogniser.live) == (None, 0)
    assert text(hear(recogniser, [say("head"), silence(1500)], READ)) == "head"


# The real reader with the shipped model.


@pytest.fixture(scope="module")
def shipped() -> Recogniser:
    """Provide the shipped recogniser with a reader of this machine."""
    folder = find_reader()
    assert folder is not None, "no reader is on this machine: pip install '.[reader]'"
    return load_recogniser(BUNDLE, slots=32, reader=LocalReader(load_reader(folder)))


def test_the_real_reader_gives_the_same_events_in_any_company(shipped: Recogniser) -> None:
    """32 streams of real speech, divided at random, have the events that each recording has alone."""
    dice = random.Random(5)
    options = replace(READ, written=True, alternatives=2, hotwords=(Hotword("adventure"),))
    recordings = [np.frombuffer(pcm(name, 3.3), np.int16) for name in ("talk.flac", "quilter.ogg", "airplane.mp3")]
    alone = [hear(shipped, [audio], options) for audio in recordings]
    together = hear_together(shipped, [(pieces(recordings[number % 3], dice), options) for number in range(32)])
    for number, events in enumerate(together):
        assert events == alone[number % 3]
    assert ReadBy.READER in {reader for events in alone for reader in read_by(events)}


def test_real_words_have_times_and_confidences(shipped: Recogniser) -> None:
    """The words of a real reading lie in their segment, in order, and have confidences."""
    audio = np.frombuffer(pcm("talk.flac", 7.3), np.int16)
    events = hear(shipped, [audio], replace(READ, alternatives=3))
    last = 0
    for final in finals(events):
        for word in final.words or ():
            assert last <= word.start_ms <= word.end_ms <= 7300
            assert word.confidence is not None
            assert 0 < word.confidence <= 1
            last = word.end_ms
        assert sum(other.confidence for other in final.alternatives or ()) <= 1.001
    first = finals(events)[0]
    assert (first.read_by, first.text) == (
        ReadBy.READER,
        "this change came about from an adventure we had together",
    )
