"""The second pass: the final of a segment comes from the whole segment."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.base.events import Final, Heard, Partial, ReadBy, StreamEvent
from streamer.base.limits import WHOLE_MS
from streamer.engine.acoustics.streaming_model import Emissions, ModelState
from streamer.engine.endpointing import EndpointRule
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.search import Search
from streamer.engine.segment_audio import SegmentAudio, TimeScale
from streamer.engine.stream_events import StreamError
from streamer.engine.stream_options import BadOptions, StreamOptions
from streamer.engine.text.calibration import Calibration, StepCalibration
from streamer.engine.waiting import LONGEST_WAIT_S, Wait, Work
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import UNITS, say, silence
from tests.engine.exact_streams import NOTHING, hear, lexicon_search, one, pieces, talk, text

TWICE = StreamOptions(second_pass=True)
G, H = UNITS.index("g"), UNITS.index("h")


class HastyModel(ExactModel):
    """Hears each g as an h, and each h as a g, until a segment is complete."""

    def __init__(self) -> None:
        self.wholes: list[int] = []  # the samples of each segment that it has read as a whole

    def step(self, state: ModelState, slots: list[int], samples: NDArray[np.int16]) -> Emissions:  # type: ignore[override]
        emissions = super().step(state, slots, samples)
        emissions["characters"][..., [G, H]] = emissions["characters"][..., [H, G]]
        return emissions

    def whole(self, samples: NDArray[np.int16]) -> Work[Emissions]:
        self.wholes.append(len(samples))
        return super().whole(samples)


class OnePassModel(HastyModel):
    """Cannot read whole segments."""

    whole = None  # type: ignore[assignment]


def make(model: ExactModel, search: Search | None = None, **options: object) -> Recogniser:
    searches: dict[str, Search] = {"lexicon": search or GreedySearch(UNITS, 4)}
    return Recogniser(model, searches, slots=4, **options)  # type: ignore[arg-type]


def partials(events: list[StreamEvent]) -> list[Partial]:
    return [event for event in events if isinstance(event, Partial)]


def finals(events: list[StreamEvent]) -> list[Final]:
    return [event for event in events if isinstance(event, Final)]


def shown(events: list[StreamEvent]) -> list[str]:
    return list(dict.fromkeys(event.text for event in partials(events)))


def readers(events: list[StreamEvent]) -> list[ReadBy | None]:
    return [event.read_by for event in finals(events)]


SPOKEN = [say("bag"), silence(1500), say("head cage"), silence(200)]


def test_finals_have_the_words_of_the_second_pass() -> None:
    """Finals have the words of the second pass if there is one; partials always have those of the first."""
    once, twice = (hear(make(HastyModel()), SPOKEN, options) for options in (StreamOptions(), TWICE))
    assert text(once) == "bah gead cahe"
    assert text(twice) == "bag head cage"
    assert shown(once) == shown(twice)
    assert (readers(once), readers(twice)) == ([None] * 2, [ReadBy.SECOND_PASS] * 2)


def test_nothing_is_stable_before_a_segment_ends() -> None:
    """With a second pass, no word of a partial is stable."""
    once, twice = (hear(make(HastyModel()), SPOKEN, options) for options in (StreamOptions(), TWICE))
    assert any(event.stable for event in partials(once))
    assert partials(twice)
    assert not any(event.stable for event in partials(twice))


@pytest.mark.parametrize("wish", [{"settle_ms": 500}, {"stability": "high"}])
def test_it_goes_with_no_wish_for_stable_words(wish: dict[str, object]) -> None:
    """A second pass is refused together with a wish for stable words."""
    with pytest.raises(BadOptions, match="'second_pass' excludes 'settle_ms'"):
        StreamOptions.from_dict({"second_pass": True, **wish}, (320,), ["lexicon"])


def test_a_segment_without_words_is_not_read_again() -> None:
    """Silence costs nothing, and each segment with words is read once, as far as it was computed."""
    model = HastyModel()
    hear(make(model), [silence(3000), say("bag"), silence(9000)], TWICE)
    [samples] = model.wholes
    assert samples % ExactModel.frame_samples == 0
    assert samples < 16 * 6000


class DeafModel(ExactModel):
    """Hears nothing in whole segments."""

    def whole(self, samples: NDArray[np.int16]) -> Work[Emissions]:
        return super().whole(np.zeros_like(samples))


@pytest.mark.parametrize("alternatives", [0, 2])
def test_words_that_were_shown_have_a_final(alternatives: int) -> None:
    """If the second pass finds no words, the final has those of the first."""
    options = StreamOptions(second_pass=True, alternatives=alternatives)
    events = hear(make(DeafModel()), SPOKEN, options)
    assert text(events) == "bag head cage"
    assert readers(events) == [ReadBy.FIRST_PASS] * 2


@pytest.mark.parametrize("options", [{}, {"alternatives": 2}, {"words": False}])
def test_without_time_for_it_the_first_words_remain(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> None:
    """If a second pass is not done in time, the final is that of a stream without one, and says so."""
    search = lexicon_search("bag bah head cage cahe gead", 4)
    once = hear(make(HastyModel(), search), SPOKEN, StreamOptions(**options))  # type: ignore[arg-type]
    monkeypatch.setattr("streamer.engine.waiting.LIMITS_S", {Wait.PREPARATION: 10.0, Wait.SECOND_PASS: -1.0})
    monkeypatch.setattr("streamer.engine.waiting.LONGEST_WAIT_S", -1.0)
    feeds = [(SPOKEN, StreamOptions(second_pass=True, **options))]  # type: ignore[arg-type]
    [late], _ = served(make(HastyModel(), search), feeds, random.Random(1))
    assert readers(late) == [ReadBy.FIRST_PASS] * 2
    assert [replace(event, read_by=None) for event in finals(late)] == finals(once)


def test_a_second_pass_that_has_begun_may_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a second pass that was given up remains, although it used the search of the stream."""
    recogniser, spoken = make(HastyModel()), np.concatenate([*SPOKEN, silence(1500)])
    options = StreamOptions(second_pass=True, alternatives=2)
    rest = until_it_waits(recogniser, 1, spoken, options)
    work = recogniser._waiting._waiting[1].work
    for _ in range(5):
        next(work)
    clock = recogniser._waiting._now
    monkeypatch.setattr(recogniser._waiting, "_now", lambda: clock() + LONGEST_WAIT_S + 1)
    assert recogniser.work() == [(1, None)]
    events = one(recogniser, rest)
    once = hear(make(HastyModel()), [spoken], StreamOptions(alternatives=2))
    assert replace(finals(events)[0], read_by=None) == finals(once)[0]


def test_alternatives_are_those_of_the_second_pass() -> None:
    """The first alternative is the text of the final, although the first pass preferred another one."""
    search = lexicon_search("bag bah", 4)
    events = hear(
        make(HastyModel(), search), [say("bag"), silence(100)], StreamOptions(second_pass=True, alternatives=2)
    )
    [final] = finals(events)
    assert final.text == "bag"
    assert final.alternatives is not None
    assert final.alternatives[0].text == "bag"
    assert [event.text for event in partials(events)][-1] == "bah"


def test_the_second_pass_may_have_a_search_of_its_own() -> None:
    """The second pass uses a search of its own if there is one."""
    first, second = lexicon_search("bah", 4), lexicon_search("bag", 4)
    recogniser = make(HastyModel(), first, second_searches={"lexicon": second})
    once, twice = (hear(recogniser, [say("bag"), silence(100)], options) for options in (StreamOptions(), TWICE))
    assert (text(once), text(twice)) == ("bah", "bag")


def test_a_cut_without_a_pause_loses_no_word() -> None:
    """If a segment ends at its greatest length, the words after the cut belong to the next one."""
    words = " ".join(["bag", "head", "cage", "gab"] * 8)
    options = StreamOptions(second_pass=True, endpoint=EndpointRule(silence=False, longest_ms=6000))
    events = hear(make(HastyModel()), [say(words)], options)
    assert text(events) == words
    assert len(finals(events)) > 1


def test_the_next_segment_begins_afresh() -> None:
    """Nothing of a second pass remains in the search: two segments have the same words as each alone."""
    together = hear(make(HastyModel()), [say("bag"), silence(1500), say("head"), silence(1500)], TWICE)
    alone = hear(make(HastyModel()), [say("head"), silence(1500)], TWICE)
    assert [final.text for final in finals(together)] == ["bag", finals(alone)[0].text]


def test_times_are_corrected_as_measured_for_whole_segments() -> None:
    """The times of a second pass are corrected by the calibration for whole segments."""
    fits = {"lexicon": {320: StepCalibration(start_ms=-40.0), WHOLE_MS: StepCalibration(start_ms=40.0)}}
    once, twice = (
        finals(hear(make(HastyModel(), calibration=Calibration(fits)), [silence(400), say("bag")], options))[0]
        for options in (StreamOptions(), TWICE)
    )
    assert twice.start_ms - once.start_ms == 80


def test_a_model_that_cannot_do_it_goes_without() -> None:
    """A model without a second pass recognises the stream as usual, with stable words."""
    once, asked = (hear(make(OnePassModel()), SPOKEN, options) for options in (StreamOptions(), TWICE))
    assert asked == once
    assert any(event.stable for event in partials(asked))


def served(
    recogniser: Recogniser, feeds: Sequence[tuple[Sequence[NDArray[np.int16]], StreamOptions]], dice: random.Random
) -> tuple[list[list[StreamEvent]], int]:
    """Return the events of streams that are fed at random, and how often one was fed while another waited.

    As in the service, a second pass is read part by part between steps, and the chunks of its stream wait. Chunks of
    several steps may be late, and what is left of them is computed with those that come next.
    """
    due = [
        [*(Chunk(stream, piece) for piece in pieces), Chunk(stream, NOTHING, end=True)]
        for stream, (pieces, _) in enumerate(feeds)
    ]
    events: list[list[StreamEvent]] = [[] for _ in feeds]
    beside = 0
    for stream, (_, options) in enumerate(feeds):
        recogniser.open(stream, options)
    while any(due):
        waiting = [stream for stream in range(len(feeds)) if recogniser.waits_for(stream)]
        able = [stream for stream, chunks in enumerate(due) if chunks and stream not in waiting]
        if waiting and (not able or dice.random() < 0.5):
            assert all(error is None for _, error in recogniser.work())
            continue
        beside += bool(waiting)
        chunks = [due[stream].pop(0) for stream in dice.sample(able, dice.randint(1, len(able)))]
        for index, answer in recogniser.step_without_waiting(chunks, lambda: dice.random() < 0.3):
            assert not isinstance(answer, StreamError), answer
            if isinstance(answer, Chunk):
                due[answer.stream].insert(0, answer)
            else:
                events[chunks[index].stream] += [event for event in answer if not isinstance(event, Heard)]
    return events, beside


@pytest.mark.parametrize("seed", range(8))
def test_others_are_computed_while_a_segment_is_read_again(seed: int) -> None:
    """Streams are computed between the parts of second passes of others, and have the same events as alone."""
    dice = random.Random(seed)
    wishes = [
        TWICE,
        TWICE,
        StreamOptions(),
        StreamOptions(second_pass=True, endpoint=EndpointRule(silence=False, longest_ms=6000)),
    ]
    feeds = [(pieces(talk(10 * seed + number, words=24)[1], dice), options) for number, options in enumerate(wishes)]
    alone = [hear(make(HastyModel()), *feed) for feed in feeds]
    together, beside = served(make(HastyModel()), feeds, dice)
    assert together == alone
    assert beside > 3


def until_it_waits(
    recogniser: Recogniser, stream: int, chunk: NDArray[np.int16], options: StreamOptions = TWICE
) -> Chunk:
    """Feed a stream, and return the rest of the chunk for which a second pass is due."""
    recogniser.open(stream, options)
    [(_, rest)] = recogniser.step_without_waiting([Chunk(stream, chunk)])
    assert isinstance(rest, Chunk)
    assert recogniser.waits_for(stream) is Wait.SECOND_PASS
    return rest


def test_a_stream_that_waits_can_be_closed_or_fed() -> None:
    """A stream that waits for a second pass can be closed without a trace, and loses nothing if it gets audio."""
    recogniser, spoken = make(HastyModel()), np.concatenate([*SPOKEN, silence(1500)])
    until_it_waits(recogniser, 1, spoken)
    recogniser.close(1)
    assert (recogniser.waits_for(1), recogniser.live, recogniser.work()) == (None, 0, [])
    rest = until_it_waits(recogniser, 2, spoken)
    events = one(recogniser, rest) + one(recogniser, Chunk(2, NOTHING, end=True))
    assert [event for event in events if not isinstance(event, Heard)] == hear(make(HastyModel()), [spoken], TWICE)


class Hearing:
    """A clock, and a recogniser of one stream that gets audio at this multiple of the speed of speech."""

    def __init__(self, pace: float) -> None:
        self.now, self.pace = 100.0, pace
        self.recogniser = make(HastyModel(), clock=lambda: self.now)
        self.recogniser.open(1, TWICE)

    def hear(self, audio: NDArray[np.int16]) -> float:
        """Return for how long the second pass at the end of this audio may be waited for."""
        for start in range(0, len(audio), 5120):
            self.now += 0.32 / self.pace
            [(_, answer)] = self.recogniser.step_without_waiting([Chunk(1, audio[start : start + 5120])])
            if isinstance(answer, Chunk):
                entry = self.recogniser._waiting._waiting[1]
                limit_s = entry.due_at - self.recogniser._waiting._now()
                self.recogniser.hurry(1)
                list(self.recogniser.step_without_waiting([answer]))
        return limit_s


@pytest.mark.parametrize(("pace", "least_s", "most_s"), [(1.0, 2.5, 3.5), (100.0, 5.0, LONGEST_WAIT_S)])
def test_live_speech_waits_less_than_a_recording(pace: float, least_s: float, most_s: float) -> None:
    """The second pass of live speech has 3 s; that of a recording also has the time that speaking it would take."""
    spoken = np.concatenate([say("head cage bag gab"), silence(1500)])
    hearing = Hearing(pace)
    for _ in range(3):
        assert least_s < hearing.hear(spoken) <= most_s


class BrittleModel(HastyModel):
    """Cannot read a segment that begins with silence."""

    def whole(self, samples: NDArray[np.int16]) -> Work[Emissions]:
        if not samples[0]:
            raise RuntimeError("no memory")
        return super().whole(samples)


def test_a_second_pass_that_fails_ends_its_stream_alone() -> None:
    """A second pass that fails ends its stream, and the others of the batch have their words."""
    recogniser = make(BrittleModel())
    for stream in (1, 2):
        recogniser.open(stream, TWICE)
    chunks = [Chunk(1, np.concatenate([silence(400), say("bag")]), end=True), Chunk(2, say("bag"), end=True)]
    answers = dict(recogniser.step(chunks))
    assert isinstance(answers[0], StreamError)
    assert str(answers[0]) == "failed: a segment could not be read again: no memory"
    assert isinstance(answers[1], list)
    assert text(answers[1]) == "bag"
    assert recogniser.live == 0


def test_the_segment_has_all_steps_and_the_tail() -> None:
    """The segment has the samples of all its steps, with faint noise where a flush has completed the last one."""
    audio = SegmentAudio(TimeScale(16_000, 640), 2560)
    audio.append(np.arange(1, 3001, dtype=np.int16))
    steps = []
    while (step := audio.next_step(flushing=True)) is not None:
        steps.append(step)
        audio.advance()
    segment = audio.segment()
    assert len(segment) == audio.computed == sum(map(len, steps))
    assert segment[:3000].tolist() == np.concatenate(steps)[:3000].tolist() == list(range(1, 3001))
    assert 0 < np.abs(segment[3000:]).max() <= 4
