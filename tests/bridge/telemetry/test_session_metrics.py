"""The measurements of a session, with times passed by the test."""

from __future__ import annotations

import re

import pytest

from streamer.base.codes import QuietEnding
from streamer.base.events import Done, Final, Partial, Recovered
from streamer.bridge.session.messages import MOST_KEPT
from streamer.bridge.telemetry import session_metrics as watch
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.telemetry.session_metrics import SessionMetrics
from tests.bridge.session.driven_session import FLUSH, KEEPALIVE, START, STOP, Driven, partial
from tests.bridge.telemetry.exposed_figures import figures

SECOND = 32_000


class Watched(Driven):
    """A driven session that is measured."""

    def __init__(self, start: str = START) -> None:
        super().__init__(start)
        self.metrics = Metrics()
        self.watch = SessionMetrics(self.session, self.metrics)

    def audio(self, data: bytes) -> None:
        super().audio(data)
        self.watch.note_audio(len(data), self.now)

    def text(self, text: str) -> None:
        super().text(text)
        self.watch.note_final_request(self.now)

    def says(self, kind: str, audio_ms: int, end_ms: int = 0) -> None:
        messages: dict[str, Partial | Final | Done] = {
            "partial": Partial(0, "a", 0, 0, audio_ms),
            "final": Final(0, "a", 0, end_ms, audio_ms, 0.5),
            "done": Done(audio_ms),
        }
        self.watch.note_message(messages[kind], self.now)

    def observed(self, name: str, pace: str = "real_time") -> tuple[float, float]:
        """Return the sum of seconds that were observed, and their number."""
        seen, labels = figures(self.metrics), f'{{pace="{pace}"}}'
        return round(seen[f"streamer_{name}_seconds_sum{labels}"], 6), seen[f"streamer_{name}_seconds_count{labels}"]


def test_latency_counts_from_the_last_audio_of_the_message() -> None:
    """Audio of one second comes at 0 s and the next at 1 s: the latency of a partial about both counts from 1 s."""
    watched = Watched()
    watched.audio(bytes(SECOND))
    watched.now += 1
    watched.audio(bytes(SECOND))
    watched.now += 0.25
    watched.says("partial", 1000)
    assert watched.observed("partial_latency") == (1.25, 1)
    watched.says("partial", 1280)
    assert watched.observed("partial_latency") == (1.5, 2)


def test_final_counts_from_its_last_word_too() -> None:
    """A final's latency counts from the end of its last word, and from the audio that ended it."""
    watched = Watched()
    for _ in range(30):
        watched.audio(bytes(SECOND // 10))
        watched.now += 0.1
    watched.says("final", audio_ms=3000, end_ms=1950)
    assert watched.observed("final_latency") == (0.1, 1)
    assert watched.observed("time_to_final") == (1.1, 1)


@pytest.mark.parametrize("ask", [FLUSH, STOP])
def test_what_was_asked_for_is_due_from_then(ask: str) -> None:
    """A final after a flush or a stop is not late because its audio is old."""
    watched = Watched()
    watched.audio(bytes(SECOND))
    watched.now += 30
    watched.text(ask)
    watched.now += 0.5
    watched.says("final", audio_ms=1000, end_ms=1000)
    assert watched.observed("final_latency") == (0.5, 1)


def test_end_by_the_service_is_due_from_then() -> None:
    """The same is true for a final at the end of the service."""
    watched = Watched()
    watched.audio(bytes(SECOND))
    watched.now += 30
    watched.session.drain()
    watched.watch.check(watched.now)
    watched.now += 0.5
    watched.watch.check(watched.now)
    watched.says("final", audio_ms=1000, end_ms=1000)
    assert watched.observed("final_latency") == (0.5, 1)


def test_who_is_ahead_of_time_counts_apart() -> None:
    """A client that sends faster than speech waits for its own audio; that is no latency of the service."""
    watched = Watched()
    watched.audio(bytes(5 * SECOND))
    watched.now += 4
    watched.says("partial", 5000)
    assert watched.observed("partial_latency") == (0, 0)
    assert watched.observed("partial_latency", "ahead") == (4, 1)


@pytest.mark.parametrize("options", ['{"type":"start","live":true}', START])
def test_a_burst_after_a_stall_is_in_time(options: str) -> None:
    """A client that was delayed by the network, or that is live, is not ahead."""
    watched = Watched(options)
    watched.audio(bytes(SECOND))
    watched.now += 5 if options == START else 0
    watched.audio(bytes(5 * SECOND))
    watched.says("partial", 6000)
    assert watched.observed("partial_latency") == (0, 1)


def test_lag_is_what_is_not_acknowledged() -> None:
    """Lag grows with audio and falls with answers; a session whose client is gone has none."""
    watched = Watched()
    watched.text(KEEPALIVE)
    assert watched.watch.lag_s == 0
    watched.audio(bytes(2 * SECOND))
    assert watched.watch.lag_s == 2
    watched.exchange()
    assert watched.watch.lag_s == pytest.approx(2 - watched.session.heard_ms / 1000)
    watched.session.vanish()
    assert watched.watch.lag_s == 0


def test_lag_of_a_session_is_where_it_was_most() -> None:
    """Each session with audio is counted once, at its end, with its greatest lag."""
    watched = Watched('{"type":"start","live":true}')
    for seconds in (1, 3):
        watched.audio(bytes(seconds * SECOND))
        watched.watch.note_answer(0.1, watched.now)
    for _ in range(3):
        watched.exchange()
        watched.watch.note_answer(0.1, watched.now)
    assert watched.watch.lag_s < 1
    assert watched.observed("session_lag") == (0, 0)
    watched.watch.end(watched.now)
    watched.watch.end(watched.now)
    assert watched.observed("session_lag") == (4, 1)
    silent = Watched()
    silent.watch.end(silent.now)
    assert silent.observed("session_lag") == (0, 0)


def test_audio_after_stop_is_no_lag() -> None:
    """Audio that is not accepted any more does not count as lag."""
    watched = Watched()
    watched.text(STOP)
    watched.audio(bytes(SECOND))
    assert watched.watch.lag_s == 0


def test_tiny_frames_cost_no_more() -> None:
    """Arrivals are kept in groups, and only as long as words about them may still come."""
    watched = Watched()
    for _ in range(20_000):
        watched.audio(bytes(32))
        watched.now += 0.001
    assert len(watched.watch._arrivals) <= 20_000 / watch.GROUP_MS + 1
    watched.says("partial", 10_000)
    assert watched.observed("partial_latency") == (pytest.approx(10, abs=watch.GROUP_MS / 1000), 1)


def test_what_is_remembered_is_bounded() -> None:
    """Memory is bounded even if nothing is acknowledged; words about forgotten audio are not measured."""
    watched = Watched()
    for _ in range(3 * watch.MOST_GROUPS):
        watched.audio(bytes(SECOND // 10))
        watched.session.take_messages()
    assert len(watched.watch._arrivals) == watch.MOST_GROUPS
    watched.says("partial", 1000)
    assert watched.observed("partial_latency", "ahead") == (0, 0)


def test_messages_without_audio() -> None:
    """Messages that are not about received audio are counted but not timed."""
    watched = Watched()
    watched.says("final", 0)
    watched.says("done", 0)
    assert watched.observed("final_latency") == (0, 0)
    assert figures(watched.metrics)['streamer_messages_total{type="done"}'] == 1


def test_a_recovery_is_one_whatever_it_took() -> None:
    """Failed attempts to go on count as failed requests; the first failure is the cause, counted after the recovery."""
    watched = Watched()
    watched.audio(bytes(SECOND))
    assert watched.request() is not None
    kept = watched.session.streams[0].kept_s
    watched.watch.note_failure(0, "overdue", watched.now)
    for _ in range(3):
        watched.watch.note_failure(0, "unavailable", watched.now)
    assert figures(watched.metrics)['streamer_recoveries_total{cause="overdue"}'] == 0
    watched.watch.note_message(Recovered(1500), watched.now)
    seen = figures(watched.metrics)
    assert seen['streamer_recoveries_total{cause="overdue"}'] == 1
    assert seen['streamer_recoveries_total{cause="unavailable"}'] == 0
    assert seen['streamer_request_failures_total{code="unavailable"}'] == 3
    assert (seen["streamer_recovery_gap_seconds_sum"], seen["streamer_recovery_gap_seconds_count"]) == (1.5, 1)
    assert seen["streamer_replayed_seconds_total"] == kept > 0


def test_end() -> None:
    """A session that has ended is not counted any more."""
    watched = Watched()
    assert figures(watched.metrics)['streamer_sessions_by_state{protocol="native",state="streaming"}'] == 1
    watched.watch.end(watched.now)
    assert figures(watched.metrics)['streamer_sessions_by_state{protocol="native",state="streaming"}'] == 0


def present(watched: Watched) -> set[str]:
    """Return the metrics that are not 0."""
    return {name for name, number in figures(watched.metrics).items() if number}


@pytest.mark.parametrize("leave", ["in time", "too late", "not fetched", "drained", "cut off"])
def test_parked_only_while_somebody_may_come_back(leave: str) -> None:
    """A session counts as parked from the loss of its connection until its client returns or cannot return any more."""
    watched = Watched()

    def states() -> set[str]:
        found = (re.fullmatch(r'streamer_sessions_by_state\{.*state="(.*)"\}', name) for name in present(watched))
        return {each[1] for each in found if each is not None}

    watched.audio(bytes(SECOND))
    assert states() == {"streaming"}
    watched.session.park(watched.now)
    assert states() == {"parked"}
    if leave == "in time":
        assert watched.session.resume(1, watched.now)
    elif leave == "too late":
        watched.later(watched.session.limits.resume_s)
    elif leave == "not fetched":
        watched.exchange(*(partial("x" * 10_000, number) for number in range(MOST_KEPT // 10_000 + 1)))
        watched.later(1)
    elif leave == "drained":
        watched.session.drain()
    else:
        watched.session.vanish(QuietEnding.CUT_OFF)
    assert states() == {"streaming" if leave == "in time" else "closed"}
    watched.watch.end(watched.now)
    assert states() == set()


def test_parked_after_its_end() -> None:
    """Unsent finals are kept in a parked session; if the client does not return, it is closed."""
    watched = Watched()
    watched.text(STOP)
    watched.exchange()
    assert watched.session.over
    watched.session.park(watched.now)
    assert watched.watch.state == "parked"
    watched.later(watched.session.limits.resume_s)
    assert watched.watch.state == "closed"
    assert watched.session.ended_by == "done"
