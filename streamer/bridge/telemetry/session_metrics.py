"""The measurements of one session: when its audio arrived, and how much later its words were sent.

The driver reports events to it. The rest it reads from the session.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final

from streamer.base import events
from streamer.base.codes import QuietEnding
from streamer.base.events import ServerMessage
from streamer.bridge.session.session import Session, State
from streamer.bridge.telemetry.metrics import AHEAD, OTHER, PARKED, REAL_TIME, Metrics, Paces

# Arrivals of audio are noted in groups of this length, so that a client with tiny chunks costs no more than others.
GROUP_MS: Final = 40
# A final's last word is before the silence that made it final, which a client may set to up to 10 s.
KEPT_MS: Final = 15_000
MOST_GROUPS: Final = 1024
# A live client may send at once the audio that it kept until it was connected, and then be ahead by this much.
LEAD_MS: Final = 2_000


class SessionMetrics:
    """Measures one session from its connection to its end."""

    def __init__(self, session: Session, metrics: Metrics, protocol: str = "native", key: str = "") -> None:
        """`key`: the name of the caller's key."""
        self.session = session
        self.protocol = protocol
        self.outgoing = 0  # messages that are being sent
        self._metrics = metrics
        self._arrivals: deque[tuple[float, float]] = deque()  # milliseconds of audio, and when all of it had arrived
        self._received_ms = 0.0
        self._forgotten_ms = 0.0  # the arrivals of audio before this time were dropped
        self._cause = ""  # of the recovery under way
        self._kept_s: dict[int, float] = {}  # the audio that each stream sends again in that recovery
        self._started = False
        self._finishing = False
        self._began_at: float | None = None
        self._ahead = False
        self._furthest_s = 0.0  # the greatest lag so far
        self._trace = metrics.tracing.begin(session, protocol) if metrics.tracing is not None else None
        self._protocol_seconds = metrics.protocol_seconds.labels(protocol)
        self._protocol_messages = metrics.protocol_messages.labels(protocol)
        self._usage = metrics.usage_of(key)
        metrics.live.add(self)

    @property
    def model(self) -> str:
        """The public name of its model."""
        return self.session.start.model

    @property
    def state(self) -> str:
        """The state of its client's side, or PARKED."""
        return PARKED if self.session.parked else self.session.state.value

    @property
    def backlog_bytes(self) -> int:
        """The 16 kHz audio that has not been sent to the model."""
        return self.session.waiting_bytes

    @property
    def outgoing_messages(self) -> int:
        """The messages that have not been sent to the client."""
        return self.outgoing + self.session.waiting_messages

    @property
    def computing(self) -> int:
        """The requests with audio that the model has not answered."""
        return sum(stream.computing for stream in self.session.streams)

    @property
    def lag_s(self) -> float:
        """The audio that arrived and is not acknowledged yet; 0 once the client's side is closed."""
        return 0.0 if self.session.state is State.CLOSED else max(0.0, self._received_ms - self.session.heard_ms) / 1000

    @property
    def pace(self) -> str:
        """REAL_TIME if the audio arrives as it is spoken, judged by its times; otherwise AHEAD."""
        return AHEAD if self._ahead and not self.session.start.live else REAL_TIME

    def note_audio(self, size: int, now: float) -> None:
        """Note that `size` bytes of audio arrived."""
        seconds = size / self.session.start.bytes_per_s
        self._metrics.received_seconds.inc(seconds)
        self._protocol_seconds.inc(seconds)
        self._usage.audio_s += seconds * max(1, len(self.session.streams))  # as quotas count it
        if self.session.state is not State.STREAMING:
            return  # the session ignores it
        self._received_ms += seconds * 1000
        if self._began_at is None:
            self._began_at = now
        self._ahead = self._received_ms - (now - self._began_at) * 1000 > LEAD_MS
        arrivals = self._arrivals
        if len(arrivals) > 1 and arrivals[-1][0] - arrivals[-2][0] < GROUP_MS:
            arrivals[-1] = (self._received_ms, now)
            return
        arrivals.append((self._received_ms, now))
        while len(arrivals) > MOST_GROUPS or arrivals[0][0] < self.session.heard_ms - KEPT_MS:
            self._forgotten_ms, _ = arrivals.popleft()

    def note_final_request(self, now: float) -> None:
        """Note that the client or the service wants a final: the latency of the last words counts from now."""
        if self._arrivals:
            self._arrivals[-1] = (self._received_ms, now)
        if not self._started and self.session.streams:
            self._started = True
            if self._trace is not None:
                self._trace.note_start(now)

    def note_answer(self, seconds: float, now: float, reader_s: float | None = None) -> None:
        """Note that the model answered a request after this time, in which it asked a reader for `reader_s`."""
        self._metrics.answer_seconds.observe(seconds)
        if self._trace is not None:
            self._trace.note_answer(seconds, now, reader_s)
        if self.session.state is not State.CLOSED:
            lag = self.lag_s
            self._furthest_s = max(self._furthest_s, lag)
            self._metrics.lag.labels(self.pace).observe(lag)

    def note_failure(self, stream: int, code: str, now: float) -> None:
        """Note that a request to the model failed. Call this before Session.fail()."""
        self._metrics.request_failures.labels(code).inc()
        # The first of several failures is the cause. The others are failed attempts to go on.
        self._cause = self._cause or code
        self._kept_s[stream] = max(self._kept_s.get(stream, 0.0), self.session.streams[stream].kept_s)
        if self._trace is not None:
            self._trace.note_failure(code, now)

    def check(self, now: float) -> None:
        """Look at the session again, because time has passed or something has happened."""
        if not self._finishing and self.session.state is State.FINISHING:
            self._finishing = True
            self.note_final_request(now)

    def note_ready(self) -> None:
        """Note that the session is ready, just before the client learns it."""
        self._metrics.sessions_opened.inc()
        self._metrics.protocol_sessions.labels(self.protocol).inc()
        self._usage.sessions += 1

    def note_move(self) -> None:
        """Note that a stream goes on in another sequence, without a loss."""
        self._metrics.moves.inc()

    def note_resumption(self) -> None:
        """Note that the client goes on over another connection."""
        self._metrics.resumes.inc()

    def note_message(self, message: ServerMessage, now: float) -> None:
        """Note that a message was sent."""
        self._metrics.messages.labels(message.type).inc()
        self._protocol_messages.inc()
        self.outgoing -= 1
        if self._trace is not None:
            self._trace.note_message(message, now)
        if isinstance(message, events.Partial):
            self._observe(self._metrics.partial_latency, message.audio_ms, now)
        elif isinstance(message, events.Final):
            self._observe(self._metrics.final_latency, message.audio_ms, now)
            self._observe(self._metrics.time_to_final, message.end_ms, now)
        elif isinstance(message, events.Recovered):
            self._metrics.recoveries.labels(self._cause).inc()
            self._metrics.recovery_gap.observe(message.gap_ms / 1000)
            self._metrics.replayed_seconds.inc(sum(self._kept_s.values()))
            self._cause, self._kept_s = "", {}

    def count_ending(self, *, ready: bool) -> None:
        """Count why the session ended. `ready`: whether `ready` was sent to the client."""
        reason = self.session.ended_by
        if ready:
            self._metrics.sessions_ended.labels(reason or OTHER).inc()
        elif reason is not QuietEnding.VANISHED:
            self._metrics.refusals.labels(reason or OTHER).inc()
            self._metrics.protocol_refusals.labels(self.protocol).inc()
            self._usage.refusals += 1

    def end(self, now: float) -> None:
        """Stop measuring."""
        self._metrics.live.discard(self)
        if self._began_at is not None:
            self._metrics.session_lag.labels(self.pace).observe(self._furthest_s)
            self._began_at = None
        if self._trace is not None:
            self._trace.end(now)

    def _observe(self, histogram: Paces, audio_ms: float, now: float) -> None:
        if not self._arrivals or audio_ms < self._forgotten_ms:
            return
        # Because of rounding, a time may be slightly after the end of the received audio.
        index = min(bisect_left(self._arrivals, (audio_ms, 0.0)), len(self._arrivals) - 1)
        histogram.labels(self.pace).observe(now - self._arrivals[index][1])
