"""A recogniser with Moonshine: segments by activity, readings that agree, words that stay, and any company."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from streamer.base.events import Final, Heard, Partial, Speech, StreamEvent
from streamer.engine.acoustics.streaming_model import ACTIVITY
from streamer.engine.public.graph_model import FRAMES
from streamer.engine.public.loading import load_public_model
from streamer.engine.public.moonshine_search import MoonshineSearch
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search.search import Hotword
from streamer.engine.stream_options import StreamOptions
from streamer.models.moonshine_folder import STEPS_MS, read_moonshine_folder
from tests.samples import TWO_SEGMENTS_S, pcm
from workshop.graphs.exact_icefall import BATCH
from workshop.graphs.exact_moonshine import TOKENS, make_moonshine_folder

Sound = np.ndarray[tuple[int], np.dtype[np.int16]]
OPTIONS = StreamOptions(search="greedy")
NOTHING = np.zeros(0, dtype=np.int16)
TALK = np.frombuffer(pcm("talk.flac", TWO_SEGMENTS_S), np.int16)


@pytest.fixture(scope="module", params=[BATCH, 1], ids=["together", "one by one"])
def recogniser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recogniser:
    folder = make_moonshine_folder(tmp_path_factory.mktemp("moonshine"), batch=request.param)
    return load_public_model(folder, name="small", slots=3)


def _heard(recogniser: Recogniser, chunks: list[Chunk]) -> dict[int, list[StreamEvent]]:
    heard: dict[int, list[StreamEvent]] = {}
    for index, answer in recogniser.step(chunks):
        assert not isinstance(answer, StreamError), answer
        heard[chunks[index].stream] = [event for event in answer if not isinstance(event, Heard)]
    return heard


def _alone(recogniser: Recogniser, sound: Sound, length: int, options: StreamOptions = OPTIONS) -> list[StreamEvent]:
    recogniser.open(9, options)
    events = []
    for at in range(0, len(sound), length):
        events += _heard(recogniser, [Chunk(9, sound[at : at + length])])[9]
    return events + _heard(recogniser, [Chunk(9, NOTHING, end=True)])[9]


def _lasting(events: list[StreamEvent]) -> list[StreamEvent]:
    return [event for event in events if not isinstance(event, Speech)]


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_any_chunking(step_ms: int, recogniser: Recogniser) -> None:
    """The events do not depend on the division of the audio. Segments end where the speaker pauses."""
    options = replace(OPTIONS, step_ms=step_ms)
    expected = _alone(recogniser, TALK, len(TALK), options)
    finals = [event for event in expected if isinstance(event, Final)]
    assert [final.segment for final in finals] == [0, 1]
    assert 2000 < finals[0].end_ms < finals[1].start_ms < 7000
    assert all(len(final.text.split()) > 3 for final in finals)
    assert any(isinstance(event, Speech) for event in expected)
    assert _alone(recogniser, TALK, 7001, options) == expected
    assert _alone(recogniser, TALK, 999, options) == expected


def test_any_company(recogniser: Recogniser) -> None:
    """Streams of different ages in one batch have the events that each has alone, also in used slots."""
    sounds = [TALK[at : at + length] for at, length in ((0, 80_000), (30_000, 60_000), (50_000, 50_000))]
    expected = [_alone(recogniser, sound, 5000) for sound in sounds]
    heard: dict[int, list[StreamEvent]] = {stream: [] for stream in range(3)}
    for turn in range(40):
        chunks = []
        for stream, sound in enumerate(sounds):
            at = (turn - 3 * stream) * 5000
            if at == 0:
                recogniser.open(stream, OPTIONS)
            if 0 <= at < len(sound) + 5000:
                chunks.append(Chunk(stream, sound[at : at + 5000], end=at >= len(sound)))
        for stream, events in _heard(recogniser, chunks).items():
            heard[stream] += events
    assert list(heard.values()) == expected
    assert any(isinstance(event, Final) for events in expected for event in events)


def test_stable_words_stay(recogniser: Recogniser) -> None:
    """What two readings agree on is stable: later texts of the segment begin with it. Words have times in order."""
    stable, segment, longest, last = "", 0, 0, 0
    for event in _lasting(_alone(recogniser, TALK, 3200)):
        if getattr(event, "segment", segment) != segment:
            stable, segment = "", segment + 1
        if isinstance(event, (Partial, Final)):
            assert event.text.startswith(stable)
        if isinstance(event, Partial):
            stable = event.text[: event.stable]
            longest = max(longest, event.stable)
        if isinstance(event, Final):
            for word in event.words or ():
                assert last <= word.start_ms <= word.end_ms <= 1000 * TWO_SEGMENTS_S
                last = word.start_ms
    assert longest > 10


def test_settled_words(recogniser: Recogniser) -> None:
    """A stream may want words to be stable sooner."""

    def most_stable(options: StreamOptions) -> int:
        return sum(event.stable for event in _alone(recogniser, TALK, 3200, options) if isinstance(event, Partial))

    assert most_stable(replace(OPTIONS, settle_ms=500)) > most_stable(OPTIONS)


def test_words_settle_while_nobody_speaks(tmp_path: Path) -> None:
    """In a pause nothing is read again. Words get so old that they must not change, nevertheless."""
    search = MoonshineSearch(read_moonshine_folder(make_moonshine_folder(tmp_path)), 1)
    frames = np.random.default_rng(0).integers(-8, 9, (1, 16, 32)).astype(np.float32)
    stable = []
    for settle_frames in (0, 25):
        for _ in search.prepare(0, (), settle_frames):
            pass
        search.reset([0])
        for spoken in (True, False, False, False):
            log_probs = np.full((1, 16, 1), 0.0 if spoken else -9.0, np.float32)
            [hypothesis] = search.advance([0], {FRAMES: frames, ACTIVITY: log_probs})
        assert len(hypothesis.words) > 1
        assert hypothesis.words[-1].end <= 64 - 25
        stable.append((hypothesis.stable, len(hypothesis.words) - 1))
    (unsettled, _), (settled, most) = stable
    assert unsettled < settled == most


def test_nobody_speaks(recogniser: Recogniser) -> None:
    """A decoder writes words for anything, but where nobody speaks there are none."""
    noise = np.random.default_rng(0).integers(-40, 40, 80_000, dtype=np.int16)
    assert not any(isinstance(event, (Partial, Final)) for event in _alone(recogniser, noise, 3200))


def test_the_longest_segment(recogniser: Recogniser) -> None:
    """Without a pause a segment ends at its greatest length, between two words; every word is in one final."""
    spoken = np.tile(TALK[8000:40_000], 6)
    options = replace(OPTIONS, endpoint=replace(OPTIONS.endpoint, longest_ms=6000))
    finals = [event for event in _alone(recogniser, spoken, 16_000, options) if isinstance(event, Final)]
    assert [final.segment for final in finals] == list(range(len(finals)))
    assert len(finals) >= 2
    assert all(final.end_ms - final.start_ms <= 6400 for final in finals)
    assert all(one.end_ms <= other.start_ms for one, other in pairwise(finals))


def test_hotwords_are_refused(recogniser: Recogniser) -> None:
    """The decoder cannot prefer words."""
    with pytest.raises(StreamError, match="has only a greedy search, which does not support hotwords"):
        recogniser.open(1, replace(OPTIONS, hotwords=(Hotword("Ada"),)))


def test_readings(tmp_path: Path) -> None:
    """A segment is read when it has grown by 640 ms and somebody has spoken since; its end is read in any case."""
    search = MoonshineSearch(read_moonshine_folder(make_moonshine_folder(tmp_path)), 1)
    search.reset([0])
    frames = np.random.default_rng(0).integers(-8, 9, (1, 8, 32)).astype(np.float32)

    def advance(*spoken: bool) -> int:
        for each in spoken:
            log_probs = np.full((1, 8, 1), 0.0 if each else -9.0, np.float32)
            [hypothesis] = search.advance([0], {FRAMES: frames, ACTIVITY: log_probs})
        return len(hypothesis.words)

    assert advance(False, False, False) == 0
    assert advance(True) > 0
    before = search._segments[0].read
    assert before == 32
    assert advance(False) > 0
    assert (search._segments[0].read, search._segments[0].kept) == (32, 0)
    advance(False)
    assert search._segments[0].read == 48
    advance(False, False, False, False)
    assert search._segments[0].read == 48
    [finished] = search.finish([0])
    assert search._segments[0].read == search._segments[0].frames == 80
    assert {word.start for word in finished.words} <= set(range(24, 80))
    assert search.alternatives(0, 3) == [(finished.words, 1.0)]


def test_a_kept_beginning(tmp_path: Path) -> None:
    """A reading goes on after the tokens that are kept, even if it would begin with others itself."""
    search = MoonshineSearch(read_moonshine_folder(make_moonshine_folder(tmp_path)), 1)
    memory = np.random.default_rng(1).integers(-8, 9, (64, 16)).astype(np.float32)
    free = [number for number, _ in search._decoder.read(memory, [], 0)]
    other = [(number - 2) % (len(TOKENS) - 4) + 3 for number in free]
    drafted = [number for number, _ in search._decoder.read(memory, [*free[:3], *other[3:]], 0)]
    kept = [number for number, _ in search._decoder.read(memory, other, 2)]
    assert len(free) == 8
    assert drafted == free
    assert kept[:2] == other[:2]
    assert kept[2:] != free[2:]
    assert len(kept) == 8
