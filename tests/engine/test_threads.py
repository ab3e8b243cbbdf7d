"""Threads that compute parts of a batch, and streams that have the same events with any number of them."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

from streamer.audio.audio_file import read_audio
from streamer.base.events import Heard, StreamEvent
from streamer.base.package import shipped
from streamer.engine.bundle import load_recogniser
from streamer.engine.recogniser import Chunk, StreamError
from streamer.engine.search.search import Hotword
from streamer.engine.stream_options import StreamOptions
from streamer.engine.threads import FEWEST, Threads
from tests.project import BUNDLE

OPTIONS = (
    StreamOptions(),
    StreamOptions(written=True, alternatives=3),
    StreamOptions(step_ms=160, hotwords=(Hotword("aeroplane"),)),
    StreamOptions(settle_ms=600, stability="high"),
    StreamOptions(search="greedy"),
)


def test_parts_are_equal_and_in_order() -> None:
    """A batch is divided as evenly as possible, and each part has a thread of its own."""
    threads = Threads(3)
    together = threading.Barrier(3)

    def work(part: slice) -> tuple[int, int]:
        together.wait(60)  # all parts are computed at the same time
        return part.start, part.stop

    assert threads.divide(31, work) == [(0, 10), (10, 20), (20, 31)]


@pytest.mark.parametrize(("size", "parts"), [(0, 1), (1, 1), (2 * FEWEST - 1, 1), (2 * FEWEST, 2), (100, 4)])
def test_small_batches_are_not_divided(size: int, parts: int) -> None:
    """Each part has at least a few streams."""
    threads = Threads(4)
    assert len(threads.divide(size, lambda part: part)) == parts


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_waits_for_the_other_parts(failing: int) -> None:
    """If a part fails, the caller gets its error when nobody works any more."""
    threads, done, go_on = Threads(2), list[int](), threading.Event()

    def work(part: slice) -> None:
        if (part.start > 0) == bool(failing):
            go_on.set()
            raise ValueError("no")
        go_on.wait(60)
        done.append(part.start)

    with pytest.raises(ValueError, match="no"):
        threads.divide(2 * FEWEST, work)
    assert len(done) == 1


def test_there_is_at_least_one() -> None:
    """Without a thread nothing could be computed."""
    with pytest.raises(ValueError, match="at least one"):
        Threads(0)


def events_with(threads: int, seed: int) -> list[list[StreamEvent]]:
    """Return the events of streams that come in random batches."""
    dice, streams = random.Random(seed), 4 * FEWEST
    recogniser = load_recogniser(BUNDLE, slots=streams, threads=threads)
    assert recogniser.threads == threads
    audio = np.asarray(read_audio(shipped("audio_samples/talk.flac")))
    left = {stream: audio[16_000 * (stream % 4) :][: 16_000 * 5] for stream in range(streams)}
    events: list[list[StreamEvent]] = [[] for _ in left]
    for stream in left:
        recogniser.open(stream, OPTIONS[stream % len(OPTIONS)])
    while left:
        due = dice.sample(list(left), dice.randint(1, len(left)))
        chunks = []
        for stream in due:
            size = dice.choice([2560, 5120, 12_000])
            chunks.append(Chunk(stream, left[stream][:size], end=size >= len(left[stream])))
            left[stream] = left[stream][size:]
        for index, answer in recogniser.step(chunks):
            assert not isinstance(answer, StreamError), answer
            events[chunks[index].stream] += [event for event in answer if not isinstance(event, Heard)]
        for chunk in chunks:
            if chunk.end:
                del left[chunk.stream]
    return events


def test_the_number_of_threads_changes_no_event() -> None:
    """Streams have the same events with one thread and with several, in other batches."""
    wanted = events_with(1, seed=1)
    assert all(wanted)
    assert events_with(3, seed=2) == wanted
