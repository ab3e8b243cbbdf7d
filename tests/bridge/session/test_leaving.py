"""Sessions that are asked to move elsewhere at any moment do so at a cut, and their clients do not notice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamer.bridge.session.stream import SequenceState
from streamer.testing.exact_speech import say, silence
from tests.bridge.session.generated_speech import OPTIONS, check, talk, undisturbed
from tests.bridge.session.simulation import Speaker, World

steps = st.lists(
    st.tuples(
        st.integers(0, len(OPTIONS) - 1),
        st.sampled_from([2, 320, 6000, 10_240, 32_000, 200_000]),
        st.integers(0, 4),
        st.booleans(),
    ),
    min_size=10,
    max_size=60,
)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(0, 50), script=steps)
def test_at_any_moment(seed: int, script: list[tuple[int, int, int, bool]]) -> None:
    """Texts, words, times and stable parts are those of a session that did not move, and nothing is recovered."""
    world, spoken = World(), talk(seed)
    for (_, audio), options in zip(spoken, OPTIONS, strict=True):
        world.add(audio, options)
    for number, size, requests, leaving in script:
        speaker = world.speakers[number]
        world.say(speaker, size)
        for _ in range(requests):
            world.ask(speaker)
            world.answer(speaker, leaving=leaving)
    world.end()
    for number, speaker in enumerate(world.speakers):
        check(speaker, undisturbed(spoken[number][1], [], OPTIONS[number]))
        assert "recovered" not in {event["type"] for event in speaker.told}


def finals(speaker: Speaker) -> list[dict[str, Any]]:
    return [event for event in speaker.told if event["type"] == "final"]


@pytest.mark.parametrize("options", OPTIONS)
def test_it_does_leave(options: dict[str, Any]) -> None:
    """In the middle of words the sequence stays; after the end of a segment another one begins."""
    world = World()
    speaker = world.add(say("abc").tobytes() + silence(2000).tobytes(), options)

    def work(size: int) -> None:
        world.say(speaker, size)
        for _ in range(20):
            world.ask(speaker)
            world.answer(speaker, leaving=True)

    world.ask(speaker)
    world.answer(speaker)
    first = speaker.sequences[0]
    work(len(say("abc").tobytes()) - 4000)
    assert speaker.sequences[0] == first
    assert speaker.session.streams[0].sequence is SequenceState.OPEN
    work(len(speaker.audio))
    assert speaker.sequences[0] != first
    world.end()
    assert [event["words"][0].get("spoken", event["text"]) for event in finals(speaker)] == ["abc"]
