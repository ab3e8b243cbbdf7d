"""Generated faults in any order: no word is lost, doubled, or sent to another session."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.bridge.session.generated_speech import (
    LETTERS,
    OPTIONS,
    check,
    letters,
    talk,
    undisturbed,
)
from tests.bridge.session.simulation import World

who = st.integers(0, len(LETTERS) - 1)
deeds = st.one_of(
    st.tuples(st.just("say"), who, st.sampled_from([2, 320, 6000, 10_240, 32_000, 200_000])),
    st.tuples(st.just("flush"), who),
    st.tuples(st.just("ask"), who),
    st.tuples(st.just("answer"), who),
    st.tuples(st.just("work"), who, st.integers(1, 12)),
    st.tuples(st.just("overdue"), who),
    st.tuples(st.just("forget"), who),
    st.tuples(st.just("crash")),
    st.tuples(st.just("later"), st.sampled_from([0.01, 0.3, 3.0])),
)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(0, 50), script=st.lists(deeds, min_size=10, max_size=60))
def test_any_fault_in_any_order(seed: int, script: list[tuple[Any, ...]]) -> None:
    """Each session gets what it would have got without the faults: texts, words, times and answers."""
    world, spoken = World(), talk(seed)
    for (_, audio), options in zip(spoken, OPTIONS, strict=True):
        world.add(audio, options)
    flushed_at: list[list[int]] = [[], [], []]
    for name, *more in script:
        if name in ("crash", "later"):
            getattr(world, name)(*more)
            continue
        number, *size = more
        speaker = world.speakers[number]
        if name == "flush" and not speaker.session.full:
            flushed_at[number].append(speaker.place)
        if name == "work":
            for _ in range(size[0]):
                world.ask(speaker)
                world.answer(speaker)
        else:
            getattr(world, name)(speaker, *size)
    world.end()

    for number, speaker in enumerate(world.speakers):
        text, audio = spoken[number]
        recoveries = sum(event["type"] == "recovered" for event in speaker.told)
        assert recoveries <= speaker.faults
        check(speaker, undisturbed(audio, flushed_at[number], OPTIONS[number]))
        assert LETTERS[number] == "".join(sorted({*letters(speaker)})) or not letters(speaker).strip()
        if not flushed_at[number]:
            assert letters(speaker) == text.replace(" ", "")
