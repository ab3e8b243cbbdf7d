"""Sessions of a model that detects speech in pieces: any division and any loss, and no event of speech comes twice."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from streamer.base.events import ModelEvent, Opened
from streamer.bridge.session.stream import Request
from streamer.engine.recogniser import Recogniser, StreamError
from streamer.engine.search.greedy_search import GreedySearch
from streamer.testing.exact_speech import UNITS
from tests.bridge.session.driven_session import STEP, Driven, heard, parsed
from tests.bridge.session.generated_speech import letters, talk
from tests.bridge.session.simulation import SLOTS, Speaker, World
from tests.engine.exact_streams import HearingModel, LoudDetector

SLACK_MS = 160  # after a loss, the detector has no memory of what was before the cut


class HearingWorld(World):
    """A world whose recogniser detects speech in pieces, and says so."""

    def _made(self) -> Recogniser:
        searches = {"lexicon": GreedySearch(UNITS, SLOTS)}
        return Recogniser(HearingModel(), searches, slots=SLOTS, detector=LoudDetector(SLOTS), idle_limit_s=1e9)

    def _compute(self, speaker: Speaker, stream: int, request: Request) -> list[ModelEvent] | StreamError:
        events = super()._compute(speaker, stream, request)
        if request.start and not isinstance(events, StreamError):
            events.insert(0, Opened(piece_ms=self._recogniser.piece_ms(speaker.sequences[stream])))
        return events


def session(audio: bytes, options: dict[str, Any], sizes: list[int], dice: random.Random | None = None) -> Speaker:
    """A session that sends its audio in portions of these sizes. With `dice`, its sequence is lost now and then."""
    world = HearingWorld()
    speaker = world.add(audio, options)
    size = itertools.cycle(sizes)
    while speaker.place < len(audio):
        world.say(speaker, next(size))
        world.ask(speaker)
        if dice is not None and dice.random() < 0.05:
            world.forget(speaker)
        world.answer(speaker)
        world.later(0.05)
    world.end()
    return speaker


def speech(speaker: Speaker) -> list[tuple[str, int]]:
    return [(event["state"], event["at_ms"]) for event in speaker.told if event["type"] == "speech"]


@pytest.mark.parametrize("seed", range(2))
def test_turns_end_within_steps(seed: int) -> None:
    """With any division and any loss, every turn is the same."""
    text, audio = talk(seed)[seed % 3]
    options = {"step_ms": 640, "endpoint": {"turn": True, "longest_pause_ms": 500}, "turns": True}
    whole = session(audio, options, [32_000])
    lossy = session(audio, options, [1280, 6400, 32], random.Random(seed))
    assert lossy.faults
    assert turns(whole)
    assert turns(session(audio, options, [640, 3200, 2])) == turns(lossy) == turns(whole)
    assert letters(whole) == text.replace(" ", "")


def turns(speaker: Speaker) -> list[tuple[Any, ...]]:
    ends = [event for event in speaker.told if event["type"] == "final" and "turn" in event]
    return [(event["text"], event["end_ms"], event["audio_ms"], event["turn"]) for event in ends]


def test_a_request_ends_where_a_turn_may_end() -> None:
    """The model gets the audio up to there as soon as it is there, and then the rest of the step."""
    driven = Driven()
    driven.audio(bytes(STEP))
    assert driven.request() == Request(bytes(STEP))
    driven.session.answer(0, parsed({**heard(STEP), "due": (STEP + 1280) // 2}), driven.now)
    driven.audio(bytes(1278))
    assert driven.request() is None
    driven.audio(bytes(2))
    assert driven.exchange() == Request(bytes(1280))
    driven.audio(bytes(STEP - 1282))
    assert driven.request() is None
    driven.audio(bytes(2))
    assert driven.request() == Request(bytes(STEP - 1280))


@pytest.mark.parametrize("seed", range(4))
def test_speech_is_told_once(seed: int) -> None:
    """Any division of the audio gives the same events; after losses none is missing, doubled, or at another place."""
    dice = random.Random(seed)
    text, audio = talk(seed)[seed % 3]
    options = {"step_ms": (160, 320, 640)[seed % 3], "endpoint": {"longest_ms": 6000}}
    whole = session(audio, options, [32_000])
    expected = speech(whole)
    assert [state for state, _ in expected] == ["start", "end"] * (len(expected) // 2)
    assert len(expected) >= 2
    assert speech(session(audio, options, [640, 3200, 2])) == expected
    lossy = session(audio, options, [1280, 6400, 32], dice)
    assert lossy.faults
    found = speech(lossy)
    assert [state for state, _ in found] == [state for state, _ in expected]
    assert all(abs(at - place) <= SLACK_MS for (_, at), (_, place) in zip(found, expected, strict=True))
    assert letters(lossy) == letters(whole) == text.replace(" ", "")
