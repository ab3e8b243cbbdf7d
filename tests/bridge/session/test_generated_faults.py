"""Generated faults in any order: no word is lost, doubled, or told to somebody else."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamer.testing.exact_speech import say, silence
from tests.bridge.session.simulation import Speaker, World

# Each session speaks words of letters that are its own.
LETTERS = ("abc", "def", "ghi")
WORDS = 6

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


def talk(seed: int) -> list[tuple[str, bytes]]:
    """For each session a text and its audio, with pauses of every length."""
    found = []
    for number, letters in enumerate(LETTERS):
        dice = random.Random(f"{seed} {number}")
        words = ["".join(dice.choices(letters, k=dice.randint(1, 4))) for _ in range(WORDS)]
        audio = [silence(dice.choice([0, 37, 900]))]
        for word in words:
            audio += [say(word), silence(dice.choice([0, 0, 55, 310, 640, 1090, 2411]))]
        found.append((" ".join(words), np.concatenate(audio).tobytes()))
    return found


OPTIONS: list[dict[str, Any]] = [
    {"step_ms": 160, "endpoint": {"longest_ms": 6000}, "partial_words": True},
    {"written": True},
    {"step_ms": 640, "stability": "medium"},
]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(0, 50), script=st.lists(deeds, min_size=10, max_size=60))
def test_any_fault_in_any_order(seed: int, script: list[tuple[Any, ...]]) -> None:
    """Each session is told what it would have been told without the faults: texts, words, times and answers."""
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


def letters(speaker: Speaker) -> str:
    """What was final, without spaces: a flush may fall into the middle of a word."""
    return "".join(event["text"] for event in speaker.told if event["type"] == "final").replace(" ", "").lower()


def undisturbed(audio: bytes, flushes: list[int], options: dict[str, Any]) -> Speaker:
    """The same audio with flushes at the same places, and no fault."""
    world = World()
    speaker = world.add(audio, options)
    for place in flushes:
        while speaker.place < place or speaker.session.full:
            world.say(speaker, min(place - speaker.place, 32_000))
            world.ask(speaker)
            world.answer(speaker)
        world.flush(speaker)
    world.end()
    return speaker


def check(speaker: Speaker, whole: Speaker) -> None:
    told = speaker.told
    assert kept(told) == kept(whole.told)
    assert [event["n"] for event in told] == list(range(1, len(told) + 1))
    ends = [word[name] for event in told if event["type"] == "final" for word in event["words"] for name in TIMES]
    assert ends == sorted(ends)
    heard = [event["audio_ms"] for event in told if event["type"] in ("heard", "flushed", "done")]
    assert heard == sorted(heard)
    promised: dict[int, str] = {}
    for event in told:
        if event["type"] in ("partial", "final"):
            assert event["text"].startswith(promised.get(event["segment"], ""))
        if event["type"] == "partial":
            promised[event["segment"]] = event["text"][: event["stable"]]


TIMES = ("start_ms", "end_ms")


def kept(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What does not depend on the pace: all but acknowledgements and recoveries, and who it is."""
    return [{**event, "n": 0} for event in told if event["type"] not in ("ready", "heard", "recovered")]
