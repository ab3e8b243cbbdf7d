"""The plans of sessions for `scripts/service/soak.py faults`: the seed decides what they say and do."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from streamer.base.events import Final
from streamer.engine.recogniser import Chunk, StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_model import exact_recogniser
from workshop.soak.session_plan import (
    KINDS,
    MOST_WORDS,
    STOP,
    VOICES,
    Action,
    Audio,
    SessionPlan,
    draw_plan,
    draw_speech,
    origin,
    word,
)

STEPS = (160, 320, 640)


def test_a_word_tells_whose_it_is() -> None:
    """Every voice has its own words, and each word shows its position."""
    rng = random.Random(1)
    for _ in range(200):
        voice, place = rng.randrange(VOICES), rng.randrange(MOST_WORDS)
        assert origin(word(voice, place)) == (voice, place)
    assert len({word(voice, 0) for voice in range(VOICES)}) == VOICES
    assert [origin(text) for text in ("", "abc", "abcdef", "ab'de", "ABCDE")] == [None] * 5


@pytest.mark.parametrize("step_ms", STEPS)
@pytest.mark.parametrize("longest_ms", [6000, 20_000])
def test_it_is_heard_exactly(step_ms: int, longest_ms: int) -> None:
    """The exact model hears these words at these places, whatever ends a segment, and with flushes between words."""
    spoken = draw_speech(77, 30, random.Random(step_ms))
    recogniser = exact_recogniser(1)
    options = {"step_ms": step_ms, "endpoint": {"longest_ms": longest_ms}}
    recogniser.open(1, StreamOptions.from_dict(options, STEPS, ["lexicon"]))
    heard = []
    places = [0, spoken.gaps[9], spoken.gaps[20], len(spoken.audio)]
    for begin, end in pairwise(places):
        for place in range(begin, end, 4321):
            chunk = Chunk(1, spoken.audio[place : min(place + 4321, end)], flush=place + 4321 >= end)
            [(_, answer)] = recogniser.step([chunk])
            assert not isinstance(answer, StreamError)
            for event in answer:
                heard += list(event.words or ()) if isinstance(event, Final) else []
    assert [told.word for told in heard] == [said.text for said in spoken.words]
    for told, said in zip(heard, spoken.words, strict=True):
        assert 0 <= told.start_ms - said.start_ms <= 80
        assert 0 <= told.end_ms - said.end_ms <= 41


def test_a_seed_repeats_a_session() -> None:
    """The same seed and number give the same session, and others give another one."""
    first, again, other = draw_plan(3, 7), draw_plan(3, 7), draw_plan(3, 8)
    assert (first.kind, first.options, first.audio, first.items) == (
        again.kind,
        again.options,
        again.audio,
        again.items,
    )
    assert first.audio != other.audio


def test_plans_hold_together() -> None:
    """All kinds of session occur; audio is complete and in order unless a session ends early; no two share a word."""
    plans = [draw_plan(1, number) for number in range(400)]
    assert set(Counter(each.kind for each in plans)) == set(KINDS)
    seen: set[str] = set()
    for each in plans:
        words = {said.text for spoken in each.speeches for said in spoken.words}
        assert not words & seen
        seen |= words
        _check_audio(each)


def _check_audio(each: SessionPlan) -> None:
    place = 0
    for item in each.items:
        if isinstance(item, Audio):
            assert (item.begin, item.begin < item.end) == (place, True)
            place = item.end
    if each.kind != "half_sample":
        assert all(flush % each.frame_bytes == 0 for flush in each.flush_offsets)
    if each.ends == {"done"}:
        assert place == len(each.audio)
        assert STOP in each.items
    assert each.ends
    actions = {item.what for item in each.items if isinstance(item, Action)}
    assert actions <= {"sleep", "cut", "takeover", "vanish", "leave", "stop_reading"}
