"""Speech that is detected in pieces of audio that are shorter than a step."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.base.events import Cut, Final, Heard, Partial, Speech, StreamEvent
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_speech import UNITS, say, silence
from tests.engine.exact_streams import MUSIC, NOTHING, HearingModel, LoudDetector, hear, one, pieces, talk, text


def make(slots: int = 2, detector: LoudDetector | None = None) -> Recogniser:
    detector = detector or LoudDetector(slots)
    return Recogniser(HearingModel(), {"lexicon": GreedySearch(UNITS, slots)}, slots=slots, detector=detector)


def speech(events: list[StreamEvent]) -> list[tuple[str, int]]:
    return [(event.state, event.at_ms) for event in events if isinstance(event, Speech)]


@pytest.mark.parametrize("step_ms", [160, 320, 640])
def test_speech_starts_before_the_step_is_complete(step_ms: int) -> None:
    """The start comes with the piece in which it is sure, and long before the first word."""
    recogniser = make()
    recogniser.open(1, StreamOptions(step_ms=step_ms))
    assert recogniser.piece_ms(1) == step_ms // 4
    assert recogniser.own_step_ms(1) is None
    size = step_ms // 4 * 16
    audio = np.concatenate([silence(2 * step_ms), say("abcdabcdabcd")])
    for start in range(0, len(audio), size):
        told = one(recogniser, Chunk(1, audio[start : start + size]))
        if speech(told):
            break
    assert speech(told) == [("start", 2 * step_ms - 40)]
    assert start + size <= (2 * step_ms + max(80, step_ms // 4)) * 16


@pytest.mark.parametrize("seed", range(6))
def test_any_chunking_and_any_company_gives_the_same_events(seed: int) -> None:
    """The order of all events does not depend on the chunks; starts and ends alternate, and times only grow."""
    dice = random.Random(seed)
    _, audio = talk(seed, words=15)
    audio = audio[: 16_000 * 20]
    options = StreamOptions(step_ms=dice.choice([160, 320, 640]))
    rule = replace(options.endpoint, after_text_ms=dice.choice([400, 700, 1000]), without_text_ms=1500)
    options = replace(options, endpoint=rule)
    recogniser = make()
    events = hear(recogniser, [audio], options)
    assert beside(recogniser, pieces(audio, dice), options, dice) == events
    told = speech(events)
    assert told
    assert all(one != other for (one, _), (other, _) in itertools.pairwise(told))
    assert [at for _, at in told] == sorted(at for _, at in told)


def beside(
    recogniser: Recogniser, chunks: list[NDArray[np.int16]], options: StreamOptions, dice: random.Random
) -> list[StreamEvent]:
    """Return the events of a stream that shares each batch with another one."""
    recogniser.open(1, options)
    recogniser.open(2, StreamOptions(step_ms=dice.choice([160, 320, 640])))
    events: list[StreamEvent] = []
    for number, chunk in enumerate([*chunks, NOTHING]):
        company = Chunk(2, say("abc")[: dice.choice([0, 700, 5000])])
        found = dict(recogniser.step([Chunk(1, chunk, end=number == len(chunks)), company]))
        answer = found[0]
        assert not isinstance(answer, StreamError)
        events += answer
    recogniser.close(2)
    return [event for event in events if not isinstance(event, Heard)]


@pytest.mark.parametrize("seed", range(4))
def test_words_do_not_depend_on_pieces(seed: int) -> None:
    """Everything but the events of speech is the same without them."""
    _, audio = talk(seed, words=15)
    audio = audio[: 16_000 * 20]
    with_speech, without = (hear(make(), [audio], StreamOptions(speech=speech)) for speech in (True, False))
    assert [plain(event) for event in with_speech if not isinstance(event, Speech)] == list(map(plain, without))


def plain(event: StreamEvent) -> StreamEvent:
    return replace(event, told=None) if isinstance(event, Cut) else event


def test_words_that_no_detector_heard_are_speech() -> None:
    """If no piece has speech, the words of a segment start speech, and its end ends it."""

    class Deaf(LoudDetector):
        def compute(self, slots: object, pieces: object) -> list[list[float]]:
            return [[0.0] for _ in super().compute(slots, pieces)]  # type: ignore[arg-type]

    events = hear(make(detector=Deaf(2)), [silence(640), say("abc"), silence(3000)])
    assert [state for state, _ in speech(events)] == ["start", "end"]
    assert text(events) == "abc"


def test_a_flush_ends_speech_and_what_follows_starts_it_again() -> None:
    """Somebody who goes on after a flush is noticed again, and not before the flush."""
    recogniser = make()
    recogniser.open(1)
    first = one(recogniser, Chunk(1, say("abc"), flush=True))
    second = one(recogniser, Chunk(1, say("cab"), end=True))
    assert [state for state, _ in speech(first)] == ["start", "end"]
    assert [state for state, _ in speech(second)] == ["start", "end"]
    assert speech(second)[0][1] >= speech(first)[1][1]


def test_a_stream_that_goes_on_knows_what_was_told() -> None:
    """At a cut in the middle of speech, another stream that continues there does not say again that it started."""
    recogniser = make()
    audio = np.concatenate([say("abcd efgh " * 30), silence(2000)])
    events = hear(recogniser, np.array_split(audio, 3))
    cut = next(event for event in events if isinstance(event, Cut))
    assert cut.told
    options = StreamOptions(speaking=bool(cut.speaking), told=cut.told, begins=bool(cut.begins))
    assert [state for state, _ in speech(hear(recogniser, np.array_split(audio[cut.sample :], 3), options))] == ["end"]


def test_music_starts_nothing() -> None:
    """A detector that hears no speech shows no speech, whatever words there might be."""
    events = hear(make(), [say("abc " * 20) + np.int16(MUSIC), silence(3000)])
    assert not [event for event in events if isinstance(event, (Partial, Final, Speech))]


def test_a_detector_that_fails_ends_only_its_streams() -> None:
    """A stream whose piece cannot be computed fails; one with pieces of another length does not notice."""

    class Failing(LoudDetector):
        def compute(self, slots: Sequence[int], pieces: Sequence[Sequence[NDArray[np.int16]]]) -> list[list[float]]:
            if len(pieces[0][0]) == 1280:
                raise RuntimeError("no memory")
            return super().compute(slots, pieces)

    recogniser = make(detector=Failing(2))
    recogniser.open(1, StreamOptions(step_ms=320))
    recogniser.open(2, StreamOptions(step_ms=160))
    answers = dict(recogniser.step([Chunk(1, say("abc")), Chunk(2, say("abc"))]))
    failed = answers[0]
    assert isinstance(failed, StreamError)
    assert "could not detect speech: no memory" in str(failed)
    assert not isinstance(answers[1], StreamError)
    assert recogniser.live == 1
