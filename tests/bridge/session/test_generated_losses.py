"""Connections that are lost and resumed, in any order with other events: each message comes once, in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamer.bridge.session.session import State
from tests.bridge.session.driven_session import LIMITS, STEP, Driven, partial, told
from tests.bridge.session.generated_speech import OPTIONS, check, talk, undisturbed
from tests.bridge.session.simulation import Speaker, World

deeds = st.one_of(
    st.tuples(st.just("say"), st.sampled_from([2, 321, 6000, 32_001, 200_000])),
    st.tuples(st.just("flush")),
    st.tuples(st.just("work"), st.integers(1, 12)),
    st.tuples(st.just("ask")),
    st.tuples(st.just("overdue")),
    st.tuples(st.just("lose"), st.integers(0, 9), st.sampled_from([0, 1, 777, 50_000])),
    st.tuples(st.just("back")),
    st.tuples(st.just("later"), st.sampled_from([0.01, 0.3, 3.0])),
)


class Caller(Speaker):
    """A client that loses data in both directions, and sends again from the point that the service names."""

    def __init__(self, *given: Any) -> None:
        self.away = False
        self.flushes: list[int] = []  # their places in the audio
        super().__init__(*given)

    def hear(self) -> None:
        if not self.away:
            super().hear()

    def lose(self, messages: int, audio: int, now: float) -> None:
        """Lose the last messages (but never the first one), and some audio of the client."""
        if self.away or not self.told:
            return
        self.away = True
        kept = max(1, len(self.told) - messages)
        del self.told[kept:]
        self.place = min(self.place + audio, len(self.audio))
        self.session.park(now)

    def back(self, now: float) -> None:
        if not self.away:
            return
        self.away = False
        assert self.session.resume(self.told[-1]["n"], now)
        greeting, *missed = told(self.session)
        assert (greeting["type"], greeting["n"]) == ("ready", self.told[-1]["n"])
        assert greeting["from_sample"] * 2 <= self.place
        assert greeting["flushes"] == len(self.flushes)
        self.place = greeting["from_sample"] * 2
        self.told += missed


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(0, 50), kind=st.integers(0, 2), script=st.lists(deeds, min_size=10, max_size=60))
def test_any_loss_in_any_order(seed: int, kind: int, script: list[tuple[Any, ...]]) -> None:
    """A client gets what it would have got over one connection, each number once."""
    _, audio = talk(seed)[kind]
    world = World()
    caller = Caller(0, audio, OPTIONS[kind], world.now)
    world.speakers.append(caller)
    for name, *more in script:
        if name == "later":
            world.later(*more)
        elif name == "lose":
            messages, audio_lost = more
            caller.lose(messages, audio_lost, world.now)
        elif name == "back":
            caller.back(world.now)
        elif name == "work":
            for _ in range(*more):
                world.ask(caller)
                world.answer(caller)
        elif name in ("say", "flush"):
            if caller.away:
                continue
            if name == "flush" and not caller.session.full and caller.told:
                # In the middle of a sample it would divide data that belongs together.
                world.say(caller, caller.place % 2)
                caller.flushes.append(caller.place)
                world.flush(caller)
            elif name == "say":
                world.say(caller, *more)
        else:
            getattr(world, name)(caller)
    caller.back(world.now)
    world.end()
    check(caller, undisturbed(audio, caller.flushes, OPTIONS[kind]))


def test_what_is_no_longer_kept() -> None:
    """Messages are kept for a client that is minutes behind, but not forever."""
    world = World()
    caller = Caller(0, b"", {}, world.now)
    world.speakers.append(caller)
    world.ask(caller)
    world.answer(caller)
    for _ in range(8000):
        world.flush(caller)
        world.ask(caller)
        world.answer(caller)
    last = caller.told[-1]["n"]
    assert last == 8001
    caller.session.park(world.now)
    assert not caller.session.resume(1, world.now)
    assert not caller.session.resume(last + 1, world.now)
    assert caller.session.resume(last - 1000, world.now)
    assert [message["n"] for message in told(caller.session)] == list(range(last - 1000, last + 1))


def test_what_is_kept_is_bounded() -> None:
    """If more messages gather for a parked client than are kept, its session ends."""
    driven = Driven()
    driven.session.park(driven.now)
    for number in range(30):
        driven.session.receive_audio(bytes(STEP), driven.now)
        driven.exchange(partial("x" * 10_000, 320 * (number + 1)))
        driven.session.tick(driven.now)
        if driven.session.ended_by:
            break
    assert driven.session.ended_by == "not_fetched"


def test_nobody_is_away_for_ever() -> None:
    """After the limit the session ends, and no longer counts as parked."""
    driven = Driven()
    driven.session.park(driven.now)
    due_at = driven.session.due_at()
    assert due_at is not None
    assert due_at <= driven.now + LIMITS.resume_s
    driven.later(LIMITS.resume_s)
    assert not driven.session.parked
    assert driven.session.ended_by == "vanished"


def test_nobody_is_idle_while_away() -> None:
    """The limit for being away and the limit for being idle are separate."""
    driven = Driven()
    driven.session.limits = replace(LIMITS, resume_s=2 * LIMITS.idle_s)
    driven.session.park(driven.now)
    driven.later(LIMITS.idle_s + 1)
    assert driven.session.state is State.STREAMING
    assert driven.session.resume(1, driven.now)
    driven.later(LIMITS.idle_s - 1)
    assert driven.session.state is State.STREAMING
