"""Sessions of every kind, with generated orders of messages, faults, losses and time, get exactly their own words."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from streamer.bridge.session.deadlines import Limits
from streamer.bridge.session.session import State
from tests.bridge.session.driven_session import FLUSH, KEEPALIVE, told
from tests.bridge.session.driven_session import STOP as STOP_TEXT
from tests.bridge.session.simulation import Event, Speaker, World
from workshop.soak.scripted_client import SessionRecord
from workshop.soak.session_check import check
from workshop.soak.session_plan import STOP, Audio, Item, SessionPlan, Text, draw_speech, encoded

LIMITS = Limits(idle_s=60.0, recover_s=20.0)
CAN_END_BY = ("done", "idle", "failed", "odd_bytes", "too_fast", "unknown_type", "vanished", "shutting_down")
SESSIONS: tuple[dict[str, Any], ...] = (
    {"step_ms": 160, "endpoint": {"longest_ms": 6000}, "partial_words": True},
    {"channels": 2, "multichannel": True, "second_pass": True},
    {"encoding": "pcm_f32le", "step_ms": 640, "stability": "medium", "live": True},
    {"channels": 2, "endpoint": "off", "stability": "high"},
)
TENTH_S = 1600
SIZES = [1, 2, 321, 6000, 32_001, 200_000]

who = st.integers(0, len(SESSIONS) - 1)
stream = st.sampled_from([None, None, 0, 1])
deeds = st.one_of(
    st.tuples(st.just("say"), who, st.sampled_from(SIZES)),
    st.tuples(st.just("ask_flush"), who),
    st.tuples(st.just("keepalive"), who),
    st.tuples(st.just("stop"), who),
    st.tuples(st.just("nonsense"), who),
    st.tuples(st.just("drain"), who),
    st.tuples(st.just("vanish"), who),
    st.tuples(st.just("lose"), who, st.integers(0, 9), st.sampled_from([0, 1, 777, 50_000])),
    st.tuples(st.just("back"), who),
    st.tuples(st.just("work"), who, st.integers(1, 12)),
    st.tuples(st.just("talk"), who, st.integers(5, 30)),
    st.tuples(st.just("talk"), who, st.integers(5, 30)),
    st.tuples(st.just("talk"), who, st.integers(5, 30)),
    st.tuples(st.just("ask"), who),
    st.tuples(st.just("answer"), who, stream, st.booleans()),
    st.tuples(st.just("overdue"), who, stream),
    st.tuples(st.just("forget"), who, stream),
    st.tuples(st.just("crash")),
    st.tuples(st.just("leave"), st.booleans()),
    st.tuples(st.just("later"), st.sampled_from([0.01, 0.3, 3.0, 21.0])),
)
# These are rare, because each would end much that could follow.
ENDS = ("stop", "nonsense", "drain", "vanish")


class Caller(Speaker):
    """A client that keeps what it has sent, and resumes its session when the connection is lost."""

    def __init__(self, number: int, seed: int, options: dict[str, Any], now: float) -> None:
        dice = random.Random(f"{seed} {number}")
        voices = 2 if options.get("multichannel") else 1
        self.speeches = tuple(draw_speech(2 * number + voice, 5, dice) for voice in range(voices))
        self.options = options
        self.away = False
        self.sent = 0
        self.items: list[Item] = []
        self.flushes: list[int] = []
        self.flushed = 0  # how many of them were sent over this connection
        self.stopping = False
        self.stopped = False
        super().__init__(number, encoded(self.speeches, options), options, now, LIMITS)
        self.frame_bytes = len(self.audio) // max(len(each.audio) for each in self.speeches)

    @property
    def silent(self) -> bool:
        """Return whether the client cannot send anything."""
        return self.away or self.session.full or self.session.state is not State.STREAMING

    def say(self, size: int, now: float, *, arrives: bool = True) -> None:
        """Send the next thing: a flush, some audio, or the end."""
        due = self.flushes[self.flushed :]
        until = due[0] if due else self.sent if self.stopping else len(self.audio)
        if self.place < until:
            piece = self.audio[self.place : min(self.place + size, until)]
            self.place += len(piece)
            if self.place > self.sent:
                self.items.append(Audio(self.sent, self.place))
                self.sent = self.place
            if arrives:
                self.session.receive_audio(piece, now)
        elif due:
            self.flushed += 1
            if arrives:
                self.session.receive_text(FLUSH, now)
        elif self.stopping and not self.stopped:
            self.stopped = True
            if arrives:
                self.session.receive_text(STOP_TEXT, now)

    def ask_flush(self) -> None:
        """Ask for a flush at the next place between words."""
        last = max(self.sent, *self.flushes, 0)
        gaps = [gap * self.frame_bytes for gap in self.speeches[0].gaps] if len(self.speeches) == 1 else []
        place = next((gap for gap in gaps if gap >= last), len(self.audio))
        if not self.stopping and len(self.flushes) < 8:
            self.flushes.append(place)

    def lose(self, messages: int, audio: int, now: float) -> None:
        """Lose the last messages (but never the first one), and what the client sends meanwhile."""
        if self.away or not self.told or self.session.close is not None:
            return
        self.say(audio, now, arrives=False)
        self.away = True
        del self.told[max(1, len(self.told) - messages) :]
        self.session.park(now)

    def back(self, now: float) -> None:
        if not self.away or not self.session.resumable:
            return
        self.away = False
        assert self.session.resume(self.told[-1]["n"], now)
        greeting, *missed = told(self.session)
        assert (greeting["type"], greeting["n"]) == ("ready", self.told[-1]["n"])
        self.place, self.flushed = greeting["from_sample"] * self.frame_bytes, greeting["flushes"]
        assert self.place <= self.sent
        self.stopped = self.stopped and self.session.state is not State.STREAMING
        self.told += missed

    def hear(self) -> None:
        if not self.away:
            super().hear()

    def record(self, seed: int) -> SessionRecord:
        """Return the outcome, in the form that the soak test uses."""
        items: list[Audio | Text] = []
        last = 0
        places = sorted({*self.flushes, *(item.end for item in self.items if isinstance(item, Audio))})
        for place in places:
            items += [Audio(last, place)]
            items += [Text(FLUSH, number) for number, flush in enumerate(self.flushes) if flush == place]
            last = place
        made = SessionPlan(
            seed, 0, "plain", self.options, self.speeches, self.audio, (*items, STOP), frozenset(CAN_END_BY)
        )
        record = SessionRecord(made, sent=self.sent, ended=str(self.session.ended_by or ""))
        record.events = [(0.0, event) for event in self.told]
        last_told: Event = self.told[-1] if self.told else {}
        if last_told.get("fatal"):
            record.error = last_told
        elif self.away:
            record.ended = "unknown_token"  # this is what it would be told
        record.close_code = None if self.session.close is None else int(self.session.close.code)
        return record


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    seed=st.integers(0, 50),
    script=st.lists(deeds, min_size=20, max_size=100),
    ends=st.lists(st.sampled_from(ENDS), max_size=2),
)
def test_any_session_in_any_order(seed: int, script: list[tuple[Any, ...]], ends: list[str]) -> None:
    """No word is lost, doubled or sent to another session; a session that ends early got the beginning of its words."""
    world = World()
    callers = [Caller(number, seed, options, world.now) for number, options in enumerate(SESSIONS)]
    world.speakers += callers
    allowed = list(ends)
    for name, *more in script:
        if name in ENDS:
            if name not in allowed:
                continue
            allowed.remove(name)
        act(world, callers, name, more)
    finish(world, callers)
    for caller in callers:
        record = caller.record(seed)
        event(record.ended)
        verdict = check(record, disturbed=True)
        assert not verdict.broken, verdict.broken
        assert (verdict.lost, verdict.doubled, verdict.crossed, verdict.altered) == (0, 0, 0, 0)
        assert caller.session.over
    assert world.live == 0


def act(world: World, callers: list[Caller], name: str, more: list[Any]) -> None:
    if name == "crash":
        world.crash()
    elif name == "leave":
        [world.away] = more
    elif name == "later":
        world.later(*more)
        for caller in callers:
            caller.session.tick(world.now)
            caller.hear()
    else:
        number, *given = more
        caller = callers[number]
        if name in ("say", "keepalive", "stop", "nonsense", "ask_flush"):
            speak(world, caller, name, given)
        elif name == "vanish":
            caller.session.vanish()
        elif name == "drain":
            caller.session.drain()
        elif name == "lose":
            caller.lose(*given, world.now)
        elif name == "back":
            caller.back(world.now)
        elif name in ("work", "talk"):
            for _ in range(*given):
                if name == "talk" and not caller.silent:
                    caller.say(TENTH_S * caller.frame_bytes, world.now)
                world.ask(caller)
                world.answer(caller)
        elif name == "ask":
            world.ask(caller)
        elif name == "answer":
            world.answer(caller, given[0], leaving=given[1])
        else:
            getattr(world, name)(caller, *given)
        caller.hear()


def speak(world: World, caller: Caller, name: str, given: list[Any]) -> None:
    if caller.silent:
        return
    if name == "say":
        [size] = given
        caller.say(size, world.now)
    elif name == "ask_flush":
        caller.ask_flush()
    elif name == "keepalive":
        caller.session.receive_text(KEEPALIVE, world.now)
    elif name == "nonsense":
        caller.session.receive_text('{"type":"dance"}', world.now)
    else:
        caller.stopping = caller.stopping or not caller.flushes


def finish(world: World, callers: list[Caller]) -> None:
    """Stop all faults, let all clients return, and send the rest."""
    world.away = False
    for _ in range(3000):
        if all(caller.session.over for caller in callers):
            break
        for caller in callers:
            if caller.away and not caller.session.resumable:
                caller.session.vanish()
            caller.back(world.now)
            if not caller.silent:
                caller.say(32_000, world.now)
                caller.stopping = caller.stopping or caller.place == len(caller.audio)
            world.ask(caller)
            world.answer(caller)
            caller.hear()
        world.later(0.1)
