"""Properties of the recogniser with any model and any words, tested with an exact model."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from streamer.base.events import Cut, Final, Flushed, Heard, Partial, Speech, StreamEvent
from streamer.engine.recogniser import LONGEST_CHUNK_S, Chunk, Recogniser, StreamError
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.search.search import Hotword, Hypothesis, LikelyWords, Search
from streamer.engine.segment_audio import SegmentAudio
from streamer.engine.stream_options import StreamOptions
from streamer.engine.waiting import SLICE_S, WaitingWork
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import FRAME, UNITS, say, silence
from tests.engine.exact_streams import NOTHING, hear, lexicon_search, one, pieces, talk, text


def make(slots: int = 4, **options: object) -> Recogniser:
    return Recogniser(ExactModel(), {"lexicon": GreedySearch(UNITS, slots)}, slots=slots, **options)  # type: ignore[arg-type]


def lexicon_recogniser(words: str) -> Recogniser:
    return Recogniser(ExactModel(), {"lexicon": lexicon_search(words, 4)}, slots=4)


@pytest.mark.parametrize("seed", range(6))
def test_every_word_of_a_lexicon_is_in_one_final(seed: int) -> None:
    """With the beam search, too, the last word before a pause, a cut or the end is whole and comes once."""
    words, audio = talk(seed)
    recogniser = Recogniser(ExactModel(), {"lexicon": lexicon_search(words, 1)}, slots=1)
    options = StreamOptions(second_pass=seed % 2 > 0)
    assert text(hear(recogniser, [audio[:400_000], *np.array_split(audio[400_000:], 4)], options)) == words


@pytest.mark.parametrize("counter", [2**31, 2**32, 2**53, 2**63])
def test_a_stream_that_lasts_for_long(counter: int) -> None:
    """While its counter of samples passes what fits into usual numbers, words and times go on as at the beginning."""
    words, audio = talk(3, words=8)
    begin = (counter - len(audio) // 2) // 16_000 * 16_000  # whole seconds
    finals: list[list[Final]] = []
    for start in (0, begin):
        recogniser = make()
        recogniser.open(1)
        stream = recogniser._streams.find(1)
        assert stream is not None
        supply = stream.supply
        assert isinstance(supply, SegmentAudio)
        supply.base = supply.received = start
        if supply._pieces is not None:
            supply._pieces.taken = start
        events = [event for piece in np.array_split(audio, 20) for event in one(recogniser, Chunk(1, piece))]
        events += one(recogniser, Chunk(1, NOTHING, end=True))
        finals.append([event for event in events if isinstance(event, Final)])
    at_once, later = finals
    assert text(later) == text(at_once) == words
    assert [final.end_ms - begin // 16 for final in later] == [final.end_ms for final in at_once]


def test_streams_of_different_searches_share_a_batch() -> None:
    """Each stream gets the words of the search that it chose; an unknown search is refused."""
    searches: dict[str, Search] = {"lexicon": lexicon_search("bad cab", 4), "greedy": GreedySearch(UNITS, 4)}
    recogniser = Recogniser(ExactModel(), searches, slots=4)
    for stream in range(4):
        recogniser.open(stream, StreamOptions(search="greedy" if stream % 2 else "lexicon"))
    answers = dict(recogniser.step([Chunk(stream, say("bad fee cab"), end=True) for stream in range(4)]))
    said = [text(answers[stream]) for stream in range(4)]  # type: ignore[arg-type]
    assert said[1] == said[3] == "bad fee cab"
    assert said[0] == said[2] != "bad fee cab"
    with pytest.raises(StreamError, match="no search 'best'"):
        recogniser.open(9, StreamOptions(search="best"))
    assert recogniser.live == 0


@pytest.mark.parametrize("seed", range(12))
def test_every_word_is_in_one_final(seed: int) -> None:
    """Words are neither lost, doubled nor split, whatever the pauses."""
    words, audio = talk(seed)
    options = StreamOptions(second_pass=seed % 2 > 0)
    assert text(hear(make(), [audio[:400_000], *np.array_split(audio[400_000:], 4)], options)) == words


@pytest.mark.parametrize("seed", range(8))
def test_any_chunking_gives_the_same_events(seed: int) -> None:
    """Audio in any pieces, empty ones included, gives the events of the audio in one piece."""
    dice = random.Random(seed)
    _, audio = talk(seed, words=20)
    audio = audio[: 16_000 * LONGEST_CHUNK_S]
    options = StreamOptions(step_ms=dice.choice([160, 320, 640]), second_pass=dice.choice([False, True]))
    assert hear(make(), pieces(audio, dice), options) == hear(make(), [audio], options)


def test_streams_do_not_notice_one_another() -> None:
    """32 streams of different ages, steps and chunk sizes in one recogniser have the same events as each alone."""
    dice = random.Random(5)
    recogniser = make(slots=32)
    waiting = {number: pieces(talk(number, words=12)[1], dice) for number in range(1, 61)}
    options = {number: StreamOptions(step_ms=dice.choice([160, 320, 640])) for number in waiting}
    alone = {number: hear(make(), audio, options[number]) for number, audio in waiting.items()}
    unborn = list(waiting)
    live: dict[int, list[StreamEvent]] = {}
    done: dict[int, list[StreamEvent]] = {}
    while unborn or live:
        while unborn and recogniser.live < 32 and dice.random() < 0.5:
            number = unborn.pop()
            recogniser.open(number, options[number])
            live[number] = []
        batch = []
        for number in dice.sample(list(live), k=dice.randint(0, len(live))):
            left = waiting[number]
            batch.append(Chunk(number, left.pop(0)) if left else Chunk(number, NOTHING, end=True))
        for index, answer in recogniser.step(batch):
            assert not isinstance(answer, StreamError)
            number = batch[index].stream
            live[number] += [event for event in answer if not isinstance(event, Heard)]
            if batch[index].end:
                done[number] = live.pop(number)
    assert done == alone
    assert recogniser.live == 0


def test_a_newcomer_finds_nothing_of_the_former_stream() -> None:
    """A stream that is closed in the middle of a word leaves nothing in its slot."""
    recogniser = make(slots=1)
    recogniser.open(1)
    one(recogniser, Chunk(1, say("secret")[:-3000]))
    recogniser.close(1)
    assert hear(recogniser, [say("news")], stream=2) == hear(make(slots=1), [say("news")], stream=2)


def test_a_result_cannot_reach_a_newcomer() -> None:
    """A stream closed while its batch is computed gets an error, and the next stream in its slot is not disturbed."""
    recogniser = make(slots=2)
    recogniser.open(1)
    recogniser.open(2)
    steps = recogniser.step([Chunk(1, NOTHING), Chunk(2, say("a long secret"))])
    assert next(steps)[0] == 0
    recogniser.close(2)
    recogniser.open(3)
    [(index, answer)] = list(steps)
    assert index == 1
    assert isinstance(answer, StreamError)
    assert answer.code == "unknown_stream"
    events = one(recogniser, Chunk(3, say("news"), end=True))
    assert text(events) == "news"


def test_a_word_at_the_very_end_is_not_lost() -> None:
    """A word that the model emits only after the last sample is in the final, at the end of the audio."""
    audio = say("ab c")[: -5 * FRAME]  # one frame of the last letter is left, and it is emitted one frame late
    events = hear(make(), [audio])
    [final] = [event for event in events if isinstance(event, Final)]
    assert final.text == "ab c"
    assert final.end_ms == len(audio) // 16


def test_flush_makes_everything_final_and_goes_on() -> None:
    """After a flush the words so far are final, and the next word is not lost."""
    recogniser = make()
    recogniser.open(1)
    first = one(recogniser, Chunk(1, say("one two")[:-700], flush=True))
    assert text(first) == "one two"
    assert [type(event) for event in first[-3:]] == [Cut, Flushed, Heard]
    second = one(recogniser, Chunk(1, say("three"), end=True))
    assert text(second) == "three"
    [final] = [event for event in second if isinstance(event, Final)]
    assert final.segment == 1


def test_a_flush_of_nothing_is_answered() -> None:
    """A flush with no audio before it is answered, with no empty final."""
    recogniser = make()
    recogniser.open(1)
    assert one(recogniser, Chunk(1, NOTHING, flush=True)) == [Flushed(0), Heard(0, 0)]


def test_a_flush_of_nothing_asks_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush after a flush costs no more than its answer, also where less audio is in between than a frame has."""
    recogniser, asked = make(), list[int]()
    finish = GreedySearch.finish

    def noted(self: GreedySearch, slots: Sequence[int]) -> list[Hypothesis]:
        asked.append(1)
        return finish(self, slots)

    recogniser.open(1)
    monkeypatch.setattr(GreedySearch, "finish", noted)
    assert [event.text for event in one(recogniser, Chunk(1, say("ab"), flush=True)) if isinstance(event, Final)]
    before = len(asked)
    for _ in range(3):
        assert isinstance(one(recogniser, Chunk(1, NOTHING, flush=True))[0], Flushed)
        answer = one(recogniser, Chunk(1, np.zeros(FRAME - 1, np.int16), flush=True))
        assert [type(event) for event in answer] == [Cut, Flushed, Heard]
    assert len(asked) == before


def test_a_stream_is_prepared_beside_others() -> None:
    """Others are computed between the slices of its preparation; its words are those of one that is ready at once."""
    words, audio = talk(2, words=12)
    hotwords = tuple(Hotword(word, 2) for word in {*words.split()} if len(word) > 2)
    options = StreamOptions(hotwords=hotwords)
    wanted = hear(lexicon_recogniser(words), [audio], options)
    recogniser, slices = lexicon_recogniser(words), 0
    recogniser._waiting = WaitingWork(itertools.count(0.0, SLICE_S / 3).__next__)  # a part or two a slice
    recogniser.open(2)
    recogniser.open(1, options, at_once=False)
    while recogniser.waits_for(1):
        assert recogniser.work() in ([], [(1, None)])
        one(recogniser, Chunk(2, audio[slices * 160 : slices * 160 + 160]))
        slices += 1
    assert slices > 5
    found = one(recogniser, Chunk(1, audio)) + one(recogniser, Chunk(1, NOTHING, end=True))
    assert [event for event in found if not isinstance(event, Heard)] == wanted


def test_callers_use_time() -> None:
    """The steps of a stream are time that its caller has used."""
    recogniser = lexicon_recogniser("cab bad")
    for stream, caller in enumerate(("anna", "anna", "mallory", "ben")):
        recogniser.open(stream, StreamOptions(caller=caller))
    assert recogniser.callers == 3
    for _ in range(3):
        assert len(list(recogniser.step([Chunk(stream, say("cab")) for stream in (0, 2)]))) == 2
    used = {caller: recogniser.shares.used_s(caller) for caller in ("anna", "mallory", "ben")}
    assert used["anna"] == pytest.approx(used["mallory"], rel=0.5)
    assert used["mallory"] > used["ben"]
    recogniser.close(3)
    assert recogniser.callers == 2


def test_a_stream_that_is_being_prepared_can_be_closed_or_fed() -> None:
    """A stream in preparation can be closed, is prepared at once if it gets audio, and is closed if it is refused."""
    recogniser = lexicon_recogniser("cab bad")
    options = StreamOptions(hotwords=(Hotword("cab"),))
    recogniser.open(1, options, at_once=False)
    recogniser.close(1)
    assert (recogniser.unprepared, recogniser.live) == (0, 0)
    recogniser.open(1, options, at_once=False)
    assert "cab" in text(one(recogniser, Chunk(1, say("cab"), end=True)))
    assert (recogniser.unprepared, recogniser.live) == (0, 0)
    recogniser.open(1, StreamOptions(hotwords=(Hotword("xyz"),)), at_once=False)
    while not (ended := recogniser.work()):
        pass
    assert [(stream, error and error.code) for stream, error in ended] == [(1, "bad_options")]
    assert recogniser.live == 0
    with pytest.raises(StreamError, match="not in the lexicon"):
        recogniser.open(1, StreamOptions(hotwords=(Hotword("xyz"),)))


def test_cuts_are_where_segments_start() -> None:
    """Recognising the audio of a segment alone gives its words, so a replay gives the same words."""
    words, audio = talk(3)
    events = hear(make(), np.array_split(audio, 8))
    cuts = [0] + [event.sample for event in events if isinstance(event, Cut)]
    assert cuts == sorted(set(cuts))
    alone = [text(hear(make(), [audio[a:b]])) for a, b in itertools.pairwise(cuts)]
    assert " ".join(filter(None, alone)) == words


def test_endless_speech_is_cut_between_words() -> None:
    """With no pause at all the longest segment is cut at a gap between words, and no word is split."""
    words = " ".join(["abc", "defgh", "a"] * 40)
    events = hear(make(), np.array_split(say(words), 5))
    finals = [event for event in events if isinstance(event, Final)]
    assert text(events) == words
    assert len(finals) > 1
    assert all(final.end_ms - final.start_ms <= 20_000 for final in finals)
    # One speaker who never paused: speech starts once and ends once.
    assert [event.state for event in events if isinstance(event, Speech)] == ["start", "end"]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_stable_never_changes(seed: int) -> None:
    """The stable part of a partial only grows within its segment and the final begins with it."""
    _, audio = talk(seed, words=60)
    stable: dict[int, str] = {}
    for event in hear(make(), np.array_split(audio, 20)):
        if isinstance(event, Partial):
            assert event.text.startswith(stable.get(event.segment, ""))
            assert event.stable >= len(stable.get(event.segment, ""))
            stable[event.segment] = event.text[: event.stable]
        elif isinstance(event, Final):
            assert event.text.startswith(stable.get(event.segment, ""))


def test_times_only_grow_and_lie_in_the_audio() -> None:
    """Words, speech events and finals come in the order of their times, none after the last sample."""
    _, audio = talk(9)
    events = hear(make(), np.array_split(audio, 8))
    finals = [event for event in events if isinstance(event, Final)]
    times = [t for final in finals for word in final.words or () for t in (word.start_ms, word.end_ms)]
    speech = [event.at_ms for event in events if isinstance(event, Speech)]
    assert times == sorted(times)
    assert speech == sorted(speech)
    assert times[-1] <= len(audio) // 16
    assert [final.segment for final in finals] == list(range(len(finals)))


def test_options_leave_out_what_is_not_wanted() -> None:
    """Without partials, words and speech events only finals and cuts remain."""
    options = StreamOptions(partials=False, words=False, speech=False)
    events = hear(make(), [say("one two")], options)
    assert {type(event) for event in events} == {Final, Cut, Flushed}
    assert [event.words for event in events if isinstance(event, Final)] == [None]


def test_slots_run_out_and_come_back() -> None:
    """One stream more than there are slots is refused; an ended one makes room."""
    recogniser = make(slots=2)
    recogniser.open(1)
    recogniser.open(2)
    with pytest.raises(StreamError, match="full: all 2 slots are taken"):
        recogniser.open(3)
    one(recogniser, Chunk(1, NOTHING, end=True))
    recogniser.open(3)
    assert recogniser.live == 2


def test_a_second_start_begins_anew() -> None:
    """Opening an open stream again forgets its state and takes no second slot."""
    recogniser = make(slots=1)
    recogniser.open(1)
    one(recogniser, Chunk(1, say("old")))
    assert text(hear(recogniser, [say("new")], stream=1)) == "new"


def test_idle_streams_expire() -> None:
    """A stream that got nothing for longer than the limit is closed and counted; one that gets audio stays."""
    now = [0.0]
    recogniser = make(slots=2, idle_limit_s=10, clock=lambda: now[0])
    recogniser.open(1)
    recogniser.open(2)
    now[0] = 9.0
    one(recogniser, Chunk(2, NOTHING))
    now[0] = 11.0
    assert recogniser.expire() == [1]
    assert (recogniser.live, recogniser.expired) == (1, 1)
    [(_, answer)] = recogniser.step([Chunk(1, NOTHING)])
    assert isinstance(answer, StreamError)
    assert answer.code == "unknown_stream"


def test_an_error_of_one_chunk_is_its_own() -> None:
    """Unknown streams, two chunks of one stream and too much audio fail alone; the rest of the batch is computed."""
    recogniser = make()
    recogniser.open(1)
    recogniser.open(2)
    too_long = np.zeros(16_000 * LONGEST_CHUNK_S + 1, dtype=np.int16)
    batch = [Chunk(9, NOTHING), Chunk(2, too_long), Chunk(1, say("fine"), end=True), Chunk(1, NOTHING)]
    answers = dict(recogniser.step(batch))
    codes = {index: answer.code for index, answer in answers.items() if isinstance(answer, StreamError)}
    assert codes == {0: "unknown_stream", 1: "too_long", 3: "busy_stream"}
    assert text(answers[2]) == "fine"  # type: ignore[arg-type]


def test_a_model_that_breaks_closes_only_its_batch() -> None:
    """Streams whose step broke get an error and are closed; a stream of another step goes on."""

    class Fragile(ExactModel):
        def step(self, state, slots, samples):  # type: ignore[no-untyped-def]
            if samples.shape[1] == 10_240:
                raise RuntimeError("out of memory")
            return super().step(state, slots, samples)

    recogniser = Recogniser(Fragile(), {"lexicon": GreedySearch(UNITS, 4)}, slots=4)
    recogniser.open(1, StreamOptions(step_ms=640))
    recogniser.open(2, StreamOptions(step_ms=320))
    answers = dict(recogniser.step([Chunk(1, say("broken words")), Chunk(2, say("fine"), end=True)]))
    assert isinstance(answers[0], StreamError)
    assert "out of memory" in str(answers[0])
    assert text(answers[1]) == "fine"  # type: ignore[arg-type]
    assert recogniser.live == 0


class FragileSearch(GreedySearch):
    """A search that cannot end a segment in its first slot."""

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        if slot == 0:
            raise RuntimeError("no memory")
        return super().alternatives(slot, number)


def test_a_stream_that_cannot_end_fails_alone() -> None:
    """Its client gets the error, and its slot is free; the other streams of the batch go on with their words."""
    recogniser = Recogniser(ExactModel(), {"lexicon": FragileSearch(UNITS, 4)}, slots=4)
    for number in (1, 2, 3):
        recogniser.open(number, StreamOptions(alternatives=1))
    batch = [Chunk(1, say("lost"), end=True), Chunk(2, say("fine"), end=True), Chunk(3, say("also "))]
    answers = dict(recogniser.step(batch))
    assert isinstance(answers[0], StreamError)
    assert str(answers[0]) == "failed: the end of the audio could not be computed: no memory"
    assert text(answers[1]) == "fine"  # type: ignore[arg-type]
    assert not isinstance(answers[2], StreamError)
    assert recogniser.live == 1
    assert text([*answers[2], *one(recogniser, Chunk(3, say("fine"), end=True))]) == "also fine"


@pytest.mark.parametrize("second_pass", [False, True])
def test_a_stream_that_cannot_end_a_segment_fails_alone(second_pass: bool) -> None:
    """If a segment cannot be ended within the audio, the other streams of its step go on."""
    recogniser = Recogniser(ExactModel(), {"lexicon": FragileSearch(UNITS, 4)}, slots=4)
    for number in (1, 2):
        recogniser.open(number, StreamOptions(second_pass=second_pass, alternatives=1))
    audio = np.concatenate([say("one"), silence(3000), say("two")])
    answers = dict(recogniser.step([Chunk(1, audio), Chunk(2, audio, end=True)]))
    assert isinstance(answers[0], StreamError)
    assert str(answers[0]) == "failed: the model could not compute this step: no memory"
    assert text(answers[1]) == "one two"  # type: ignore[arg-type]
    assert recogniser.live == 0


def test_memory_of_a_stream_is_bounded() -> None:
    """However long a stream is, no more audio is kept than the longest segment and one chunk."""
    recogniser = make()
    recogniser.open(1)
    words = " ".join(["abc"] * 30)
    for _ in range(40):
        one(recogniser, Chunk(1, say(words)))
    supply = recogniser._streams.use(1).supply
    assert isinstance(supply, SegmentAudio)
    assert supply.received > 16_000 * 180
    assert supply.held <= 16_000 * 21


def test_a_stream_that_is_computed_does_not_expire() -> None:
    """However long a step takes, nobody drops its stream meanwhile; without a further request it is dropped later."""
    now = 0.0
    dropped: list[list[int]] = []
    recogniser = make(idle_limit_s=10.0, clock=lambda: now)

    @contextmanager
    def meanwhile() -> Iterator[None]:
        nonlocal now
        now += 60.0
        dropped.append(recogniser.expire())
        yield

    recogniser.meanwhile(meanwhile)
    recogniser.open(1)
    recogniser.open(2)
    one(recogniser, Chunk(1, say("cab")[:5120]))
    assert dropped == [[2]]
    now += 60.0
    assert recogniser.expire() == [1]


@pytest.mark.parametrize(("flush", "end"), [(False, False), (True, False), (False, True)])
def test_the_rest_of_a_chunk_is_awaited_like_the_chunk(*, flush: bool, end: bool) -> None:
    """What is left of a flush or of the end of a stream is awaited, and has no samples."""
    chunk = Chunk(1, np.ones(5, np.int16), flush=flush, end=end)
    assert chunk.left.awaited is chunk.awaited is (flush or end)
    assert chunk.left.rest
    assert not len(chunk.left.samples)
