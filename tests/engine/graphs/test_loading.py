"""A recogniser with a public model: windows that overlap, states in slots, greedy searches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from streamer.engine.graphs.loading import load_public_model
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.stream_events import Final, Heard, Partial, StreamEvent
from streamer.engine.stream_options import StreamOptions
from streamer.testing.graphs.exact_zipformer2 import make_ctc_folder, make_transducer_folder
from streamer.testing.graphs.sounds import random_sound

Make = Callable[[Path], Path]
OPTIONS = StreamOptions(search="greedy", written=True)
NOTHING = np.zeros(0, dtype=np.int16)


@pytest.fixture(params=[make_ctc_folder, make_transducer_folder])
def recogniser(request: pytest.FixtureRequest, tmp_path: Path) -> Recogniser:
    make: Make = request.param
    return load_public_model(make(tmp_path), name="exact", slots=3)


def _heard(recogniser: Recogniser, chunks: list[Chunk]) -> dict[int, list[StreamEvent]]:
    found: dict[int, list[StreamEvent]] = {}
    for index, answer in recogniser.step(chunks):
        assert not isinstance(answer, StreamError), answer
        found[chunks[index].stream] = [event for event in answer if not isinstance(event, Heard)]
    return found


def _alone(recogniser: Recogniser, sound: np.ndarray[tuple[int], np.dtype[np.int16]], length: int) -> list[StreamEvent]:
    recogniser.open(9, OPTIONS)
    events = []
    for at in range(0, len(sound), length):
        events += _heard(recogniser, [Chunk(9, sound[at : at + length])])[9]
    return events + _heard(recogniser, [Chunk(9, NOTHING, end=True)])[9]


def test_any_chunking(recogniser: Recogniser) -> None:
    """The events are the same however the audio is divided, also in a slot that another stream has left dirty."""
    sound = random_sound(np.random.default_rng(1), 5)
    expected = _alone(recogniser, sound, len(sound))
    assert sum(isinstance(event, Final) for event in expected) >= 2
    assert _alone(recogniser, sound, 7001) == expected
    assert _alone(recogniser, sound, 999) == expected


def test_any_company(recogniser: Recogniser) -> None:
    """Streams of different ages in one batch have the events that each has alone."""
    random = np.random.default_rng(2)
    sounds = [random_sound(random, seconds) for seconds in (4, 3, 2)]
    expected = [_alone(recogniser, sound, 5000) for sound in sounds]
    found: dict[int, list[StreamEvent]] = {stream: [] for stream in range(3)}
    for turn in range(20):
        chunks = []
        for stream, sound in enumerate(sounds):
            at = (turn - 2 * stream) * 5000
            if at == 0:
                recogniser.open(stream, OPTIONS)
            if 0 <= at < len(sound) + 5000:
                chunks.append(Chunk(stream, sound[at : at + 5000], end=at >= len(sound)))
        for stream, events in _heard(recogniser, chunks).items():
            found[stream] += events
    assert list(found.values()) == expected


def test_times_of_words(recogniser: Recogniser) -> None:
    """Words have times within the audio, in order; what is said to be stable never changes."""
    sound = random_sound(np.random.default_rng(3), 6)
    stable, segment = "", 0
    last = 0
    for event in _alone(recogniser, sound, 3200):
        if getattr(event, "segment", segment) != segment:
            stable, segment = "", segment + 1
        if isinstance(event, (Partial, Final)):
            assert event.text.startswith(stable)
        if isinstance(event, Partial):
            stable = event.text[: event.stable]
        if isinstance(event, Final):
            assert event.words
            for word in event.words:
                assert last <= word.start_ms <= word.end_ms <= 6000
                assert word.confidence is not None
                assert 0 < word.confidence <= 1
                last = word.start_ms


def test_hotwords(recogniser: Recogniser) -> None:
    """A greedy search refuses hotwords, with a reason."""
    options = StreamOptions.from_dict({"hotwords": ["Ada"]}, recogniser.model.step_ms, list(recogniser.searches))
    with pytest.raises(StreamError, match="does not support hotwords"):
        recogniser.open(1, options)
