"""The recogniser in parts gives the same events as the whole one, and detects missing passages."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.base.events import Cut, Final, Speech, StreamEvent
from streamer.base.events import Heard as HeardAudio
from streamer.engine.bundle import load_recogniser
from streamer.engine.endpointing import EndpointRule
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.heads.speech_encoder import Sound
from tests.heads.parts import BUNDLE, Parts
from tests.samples import pcm

# Two utterances with a pause that ends a segment. The first ends after "of", so no rule takes it for a whole turn.
AUDIO = np.frombuffer(
    pcm("quilter.ogg")[: 2 * 36_000] + bytes(2 * 20_000) + pcm("airplane.mp3")[: 2 * 32_000], np.int16
)
NOTHING = np.zeros(0, np.int16)


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts()


@pytest.fixture(scope="module")
def whole() -> Recogniser:
    return load_recogniser(BUNDLE, slots=4)


def recognised(
    whole: Recogniser, chunks: list[NDArray[np.int16]], flush_at: int = -1, options: StreamOptions | None = None
) -> list[StreamEvent]:
    """Return the events of the recogniser that is not divided."""
    whole.open(1, options)
    told: list[StreamEvent] = []
    for number, chunk in enumerate(chunks):
        last = number == len(chunks) - 1
        [(_, answer)] = whole.step([Chunk(1, chunk, flush=number == flush_at, end=last)])
        assert not isinstance(answer, StreamError)
        told += answer
    return told


def divided(parts: Parts, chunks: list[NDArray[np.int16]], flush_at: int = -1) -> list[StreamEvent]:
    """Return the events of the parts. The end is a request of its own, after a flush."""
    told = parts.ask(1, NOTHING, {}, start=True)[:-1]
    for number, chunk in enumerate(chunks):
        flush = number in (flush_at, len(chunks) - 1)
        told += parts.ask(1, chunk, {"flush": True} if flush else {})
    parts.ask(1, NOTHING, end=True)
    return told


def cut_at(sizes: list[int]) -> list[NDArray[np.int16]]:
    """Return the audio in chunks of these sizes, again and again."""
    places, size = [0], iter(sizes * 1000)
    while places[-1] < len(AUDIO):
        places.append(places[-1] + next(size))
    return [AUDIO[start:end] for start, end in pairwise(places)]


@pytest.mark.parametrize(("sizes", "flush_at"), [([1280], 30), ([30_000, 1, 7000], 2)])
def test_parts_give_the_events_of_the_whole(whole: Recogniser, parts: Parts, sizes: list[int], flush_at: int) -> None:
    """All events are the same, also if a cut lies before steps that the encoder has computed already."""
    chunks = cut_at(sizes)
    expected = recognised(whole, chunks, flush_at)
    assert divided(parts, chunks, flush_at) == expected
    assert sum(isinstance(event, Final) for event in expected) >= 2
    assert [event.state for event in expected if isinstance(event, Speech)][:2] == ["start", "end"]
    assert parts.encoder.streams.live == parts.activity.streams.live == parts.transcript.live == 0


@pytest.mark.parametrize("turn", [False, True])
def test_any_chunking_gives_the_same_events(whole: Recogniser, turn: bool) -> None:
    """Starts and ends of speech come in the same places among all other events, and turns end at the same ones."""
    dues = 0
    # The silence is longer than these pauses, so the turn ends there whatever is recognised. Which of them end within a
    # step depends on the last word.
    for pause_ms in (800, 900, 1000):
        options = StreamOptions(endpoint=EndpointRule(turn=turn, longest_pause_ms=pause_ms), turns=turn)
        small, mixed = (recognised(whole, cut_at(sizes), options=options) for sizes in ([1280], [700, 30_000, 1]))
        told = [event for event in small if not isinstance(event, HeardAudio)]
        assert told == [event for event in mixed if not isinstance(event, HeardAudio)]
        assert any(isinstance(event, Final) and event.turn is not None for event in told) is turn
        dues += sum(isinstance(event, HeardAudio) and event.due is not None for event in small)
    assert (dues > 0) is turn


def test_streams_share_batches(parts: Parts) -> None:
    """Streams at different places, with steps of different length, get the same events as each alone."""
    dice = random.Random(4)
    options = [{"step_ms": step} for step in (160, 320, 640)]
    alone = []
    for given in options:
        parts.ask(9, NOTHING, given, start=True)
        alone.append(parts.ask(9, AUDIO[:30_000], {"flush": True}))
        parts.ask(9, end=True)
    told: list[list[StreamEvent]] = [[] for _ in options]
    parts.step([Sound(stream, NOTHING, given, start=True) for stream, given in enumerate(options)])
    sent = [0, 0, 0]
    while min(sent) < 30_000:
        sizes = [dice.choice([0, 3000, 9000]) for _ in options]
        sounds = [
            Sound(stream, AUDIO[sent[stream] : sent[stream] + size][: 30_000 - sent[stream]], {})
            for stream, size in enumerate(sizes)
        ]
        for stream, answer in enumerate(parts.step(sounds)):
            assert not isinstance(answer, StreamError)
            told[stream] += answer
            sent[stream] = min(30_000, sent[stream] + sizes[stream])
    for stream in range(3):
        told[stream] += parts.ask(stream, options={"flush": True})
        parts.ask(stream, end=True)
    assert [finals(each) for each in told] == [finals(each) for each in alone]


def finals(events: list[StreamEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Final)]


@pytest.mark.parametrize("size", [1280, 5120])
def test_a_part_that_missed_a_passage_says_so(parts: Parts, size: int) -> None:
    """If a passage did not reach a head, a piece or a whole step, the stream fails instead of hearing wrong words."""
    parts.ask(1, NOTHING, {}, start=True)
    parts.encoder.encode([Sound(1, AUDIO[:size], {})])  # lost on its way
    with pytest.raises(StreamError, match="a part of the stream did not reach this head"):
        parts.ask(1, AUDIO[5120:10_240])
    with pytest.raises(StreamError, match="unknown_stream"):
        parts.ask(1, AUDIO[10_240:15_360])
    with pytest.raises(StreamError):
        parts.ask(1, NOTHING, end=True)
    parts.transcript.close(1)
    assert parts.encoder.streams.live == parts.activity.streams.live == 0


def test_a_client_that_ignores_a_cut_gets_no_wrong_words(parts: Parts) -> None:
    """Without the answer to `again`, no later audio is recognised; with a late answer, nothing is lost."""
    parts.ask(1, NOTHING, {}, start=True)
    told: list[StreamEvent] = []
    for start in range(0, len(AUDIO), 5120):
        [answer] = parts.step([Sound(1, AUDIO[start : start + 5120], {})])
        assert not isinstance(answer, StreamError)
        told += answer
    [cut] = [event for event in told if isinstance(event, Cut)]
    again = told[-1]
    assert again.type == "again"
    assert again.sample == cut.sample  # type: ignore[union-attr]
    rest = parts.ask(1, NOTHING, {"again": {name: getattr(again, name) for name in ("sample", "run", "speaking")}})
    rest += parts.ask(1, NOTHING, {"flush": True})
    parts.ask(1, end=True)
    assert len(finals(told)) == 1
    assert len(finals(rest)) >= 1


@pytest.mark.parametrize(
    "again", [7, {"sample": 0}, {"sample": 99, "run": 1, "speaking": False}, {"sample": 0, "run": 2, "speaking": False}]
)
def test_a_false_again_is_refused(parts: Parts, again: object) -> None:
    """An `again` that is not the last event is refused, and the stream goes on."""
    parts.ask(1, NOTHING, {}, start=True)
    with pytest.raises(StreamError, match="bad_options: option 'again'"):
        parts.ask(1, NOTHING, {"again": again})
    assert parts.ask(1, AUDIO[:5120])[-1].type == "heard"
    parts.ask(1, NOTHING, end=True)
