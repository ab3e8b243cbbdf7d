"""Continues a session that has lost its connection or its service.

The service resumes the session over another connection. If it does not know the session any more, for example because
it was restarted, a new session begins at the last cut and recognises the audio without a final again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from streamer.base.codes import ClientCode, ErrorCode
from streamer.client.connection import Connection, SessionError
from streamer.client.sending import LAG_MS, KeptAudio
from streamer.wire.options import Start

# How long the client repeats its attempts, and the pauses between them, which grow.
REOPEN_S: Final = 60.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 3.0
# If the recogniser fails on some audio again and again, the client gives up after this many new sessions. A session
# that is lost with its service says nothing about its audio, so it does not count.
MOST_FAILURES: Final = 3

REFUSED_FOR_NOW: Final = (
    ErrorCode.FULL,
    ErrorCode.TOO_MANY_SESSIONS,
)  # a refusal that passes, even for a session that is already open
# Errors that pass: also those of a service that is away, starts or shuts down, and those of a proxy in its place.
PASSING: Final = (
    *REFUSED_FOR_NOW,
    ErrorCode.NOT_READY,
    ErrorCode.SHUTTING_DOWN,
    ErrorCode.NO_START,  # the client always sends it: the way was too slow
    ClientCode.AWAY,
    ClientCode.REFUSED,
    ClientCode.NO_SERVICE,
    ClientCode.LOST,
    ClientCode.OVERDUE,
)
# Error codes of a service that does not know the session.
FORGOTTEN: Final = (ErrorCode.UNKNOWN_TOKEN, ErrorCode.BAD_RESUME)

Dial = Callable[[], Awaitable[Connection]]


class Reopening:
    """Opens a session again where it was interrupted."""

    def __init__(
        self,
        dial: Dial,
        options: Mapping[str, object],
        token: str,
        kept: KeptAudio,
        progress: Progress,
        *,
        resume: bool,
        restart: bool,
        pass_over: Callable[[], None] = lambda: None,
    ) -> None:
        """`resume`: the session may go on over another connection. `restart`: it may go on in another session.

        `pass_over`: dial another address of the service next, because the present one refuses for now.
        """
        self.cancelled = False  # the client has closed the session
        self._dial = dial
        self._pass_over = pass_over
        self._options = options
        self._token = token
        self._kept = kept
        self._progress = progress
        self._resume = resume
        self._restart = restart

    async def connection(self, error: SessionError, *, ended: bool) -> tuple[Connection, list[Message]]:
        """Return another connection that is ready for the kept audio, and the events of a restart if there was one.

        `error`: the error that ended the last connection. `ended`: whether the service ended its session too. Raise
        this error or a later one if there is no other connection.
        """
        if ended:
            self._token = ""
        allowed = self._resume if self._token else self._restart
        if not allowed or not (ended or error.code == ClientCode.LOST):
            raise error
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + REOPEN_S, FIRST_PAUSE_S
        while not self.cancelled:
            try:
                return await self._attempt(until)
            except SessionError as refusal:
                if refusal.code in FORGOTTEN and self._token:
                    if not self._restart:
                        raise _forgotten_error(error) from refusal
                    self._token, pause = "", FIRST_PAUSE_S
                    continue
                if refusal.code not in PASSING:
                    raise
                self._pass_over()
                if loop.time() + pause > until:
                    raise SessionError(error.code, f"{error} After {REOPEN_S:g} s of attempts: {refusal}") from refusal
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        raise error

    async def _attempt(self, until: float) -> tuple[Connection, list[Message]]:
        if not self._token and self._progress.failures > MOST_FAILURES:
            raise SessionError(ErrorCode.FAILED, "The service fails again and again with this audio.")
        connection = await self._dial()
        timer = asyncio.get_running_loop().call_at(until, connection.abort)
        try:
            resume = {"token": self._token, "after": self._progress.after}
            ready = await connection.open({"resume": resume} if self._token else self._next_options())
            if self.cancelled:
                raise SessionError(ClientCode.CLOSED, "The session has been closed.")
            # No `await` may follow: other tasks that send or read must see either none of this change or all of it.
            return connection, self._after_resume(ready) if self._token else self._after_restart(ready)
        except BaseException:
            await connection.close()
            raise
        finally:
            timer.cancel()

    def _next_options(self) -> Mapping[str, object]:
        """Return the options of another session, which goes on after the words that are final."""
        contexts = self._progress.contexts
        return {**self._options, "context": contexts} if contexts else self._options

    def _after_resume(self, ready: Message) -> list[Message]:
        if not self._kept.resume(ready.get("from_sample", -1), ready.get("flushes", 0)):
            raise _lost_audio_error()
        return []

    def _after_restart(self, ready: Message) -> list[Message]:
        from_ms = self._kept.restart(self._progress.cuts_ms)
        if from_ms is None:
            raise _lost_audio_error()
        self._token = ready.get("token", "")
        return self._progress.restart(from_ms)


def _forgotten_error(error: SessionError) -> SessionError:
    why = "it was restarted, or too much time has passed"
    return SessionError(error.code, f"{error} The service does not know the session any more: {why}.")


def _lost_audio_error() -> SessionError:
    return SessionError(ClientCode.LOST_AUDIO, "The service asks for audio that is not kept any more.")


# Turns the messages of the service's sessions into the events of one session of the client.

Message = dict[str, Any]
# Two changes of a turn are further apart than this. A repeated change may have a slightly different time, by rounding.
TURN_MS: Final = 20
# Fields in milliseconds that are durations, not times.
DURATIONS: Final = ("gap_ms", "unrecognised_ms", "pause_ms")


class Progress:
    """The progress of a session: which messages were passed on, and from where another session must recognise again."""

    def __init__(self, start: Start, after: Sequence[Mapping[str, Any]] | None = None) -> None:
        """`start`: the options of the session that describe its channels and segments.

        `after`: the finals of an earlier session, behind which this one goes on. If it is not None, finals are passed
        on with their `context`, so that another session can go on behind them.
        """
        self.seen = 1  # the number of the last message; `ready` has the number 1
        self.heard_ms = 0.0
        self.flushes = 0  # the number of answered flushes
        self.done = False
        self.failures = 0  # how often the recogniser has failed since the last final
        self._multichannel = start.multichannel
        window_ms = start.endpoint.longest_ms + LAG_MS
        self._channels = [_Channel(window_ms) for _ in range(start.channels if start.multichannel else 1)]
        # A service that ends a session itself ends its segments, perhaps within a word. Such a final is held back,
        # with all messages after it: another session recognises its audio again.
        self._held: list[Message] = []
        self._from_ms = 0.0  # the time in our session at which the service's present session began
        self._shifts = False  # whether the service's present session began later than ours
        self._n = 0  # the difference between our numbers of messages and those of this session
        self._keeps_context = after is not None
        for final in map(dict, after or ()):
            for channel in self._channels_of(final):
                channel.is_new(final)

    @property
    def cuts_ms(self) -> list[float]:
        """For each channel, the time from which on audio may still become part of a final."""
        return [channel.cut_ms for channel in self._channels]

    @property
    def contexts(self) -> list[Message | None]:
        """For each channel, the words before its cut. Empty if the service has sent none."""
        contexts = [channel.context for channel in self._channels]
        return contexts if any(contexts) else []

    @property
    def after(self) -> int:
        """The number that the service itself gave to the last message."""
        return self.seen - self._n

    def receive(self, message: Message) -> list[Message]:
        """Take a message, and return the messages to pass on."""
        message = self._shift(message)
        number = message.get("n")
        if isinstance(number, int):
            if number <= self.seen:
                return []
            self.seen = number
        self.heard_ms = max(self.heard_ms, message.get("audio_ms", 0))
        if self._held or message.get("abrupt"):
            self._held.append(message)
            return []
        messages = self._new([message])
        if not messages and number is not None:
            # This message was passed on before a restart. So the next message gets its number.
            self.seen -= 1
            self._n -= 1
        return messages

    def release(self) -> list[Message]:
        """Return the messages that were held back, because no other session goes on."""
        return self._new(self._take_held())

    def restart(self, from_ms: float) -> list[Message]:
        """Go on from this time in another session of the service. Return an event `restarted` for each channel."""
        # The service recognises the audio of the messages that were held back again, so their numbers are free.
        numbers = [message["n"] for message in self._take_held() if "n" in message]
        self.seen = min(numbers, default=self.seen + 1) - 1
        self._shifts = True
        self.heard_ms = self._from_ms = from_ms
        return [self._restart_channel(number, channel) for number, channel in enumerate(self._channels)]

    def _restart_channel(self, number: int, channel: _Channel) -> Message:
        # The last of these events takes the number of the new session's `ready`.
        self._n = self.seen
        self.seen += 1
        segment = channel.restart()
        event = {"type": "restarted", "n": self.seen, "from_ms": int(channel.cut_ms), "segment": segment}
        return {**event, "channel": number} if self._multichannel else event

    def _take_held(self) -> list[Message]:
        held, self._held = self._held, []
        return held

    def _new(self, messages: Iterable[Message]) -> list[Message]:
        return [message for message in messages if self._is_new(message)]

    def _is_new(self, message: Message) -> bool:
        if message["type"] == "flushed":
            self.flushes += 1
        elif message["type"] == "final":
            self.failures = 0
            message.pop("abrupt", None)
        elif message["type"] == "done":
            self.done = True
        context = message.get("context") if self._keeps_context else None
        new = all(channel.is_new(message) for channel in self._channels_of(message))
        if context is not None:
            message["context"] = context
        return new

    def _channels_of(self, message: Message) -> Sequence[_Channel]:
        number = message.get("channel")
        own = self._channels[number : number + 1] if isinstance(number, int) else []
        return own or self._channels

    def _shift(self, message: Message) -> Message:
        if not self._shifts:
            return message
        shifted: Message = _add_time(message, self._from_ms)
        if message["type"] == "head":
            shifted["content"] = message["content"]  # only the head knows which of its values are times
        if isinstance(shifted.get("n"), int):
            shifted["n"] += self._n
        if isinstance(shifted.get("segment"), int):
            shifted["segment"] += self._channels_of(shifted)[0].first_segment
        if message["type"] in ("final", "partial"):
            _begin_at(shifted, self._channels_of(shifted)[0].ended_ms)
        return shifted


@dataclass
class _Channel:
    """The progress of one channel, or of all channels if they are mixed."""

    window_ms: int  # a final never contains audio that is older than this
    cut_ms: float = 0
    context: Message | None = None  # of the last final; with it, another session writes the next words the same way
    heard_ms: float = 0
    ended_ms: int = 0  # the end of the last final; no later word begins before it
    first_segment: int = 0  # the number of the first segment in the service's present session
    _segments: int = 0
    _speaking: bool = False
    _changed_ms: float = -1  # when `_speaking` last changed
    _again_until_ms: float | None = None  # after a restart: changes of `_speaking` up to this time come again
    _turn: tuple[int, float] = (-1, 0)  # the segment and the time of the last event about a turn
    _heads_ms: dict[str, float] = field(default_factory=dict)  # the time of the last event of each head
    _heads_again_until_ms: dict[str, float] = field(default_factory=dict)

    def restart(self) -> int:
        """Go on at the cut in another session of the service. Return the number of its first segment."""
        self.first_segment = self._segments
        self._again_until_ms = self._changed_ms
        self._heads_again_until_ms = dict(self._heads_ms)
        return self.first_segment

    def is_new(self, message: Message) -> bool:
        """Return whether to pass this message on, and note it. False if it was passed on before."""
        kind = message["type"]
        if kind == "speech":
            return self._is_new_speech(message)
        if kind == "turn" and not self._is_new_turn(message):
            return False
        if kind == "head":
            return self._is_new_head(message)
        if kind == "final":
            self._segments += 1
            self.ended_ms = max(self.ended_ms, message.get("end_ms", 0))
            self.context = message.pop("context", None)  # without one, nothing before it counts
        cut_ms = message.get("audio_ms" if kind == "flushed" else "cut_ms", 0)
        self.heard_ms = max(self.heard_ms, message.get("audio_ms", 0))
        self.cut_ms = max(self.cut_ms, cut_ms, self.heard_ms - self.window_ms)
        return True

    def _is_new_head(self, event: Message) -> bool:
        if event["at_ms"] <= self._heads_again_until_ms.get(event["name"], -1):
            return False
        self._heads_ms[event["name"]] = event["at_ms"]
        return True

    def _is_new_speech(self, speech: Message) -> bool:
        speaking = speech["state"] == "start"
        again = self._again_until_ms
        if again is not None and (speech["at_ms"] <= again or speaking == self._speaking):
            return False
        self._speaking, self._changed_ms = speaking, speech["at_ms"]
        return True

    def _is_new_turn(self, turn: Message) -> bool:
        if (turn["segment"], turn["audio_ms"]) < (self._turn[0], self._turn[1] + TURN_MS):
            return False
        self._turn = turn["segment"], turn["audio_ms"]
        return True


def _add_time(value: Any, ms: float) -> Any:
    """Return a copy of a value from JSON in which all times are later by this much."""
    if isinstance(value, list):
        return [_add_time(each, ms) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: math.floor(each + ms + 0.5) if _is_time(name, each) else _add_time(each, ms)
        for name, each in value.items()
    }


def _begin_at(result: Message, ended_ms: int) -> None:
    """Let no time of the words of a result be before the end of the last final, as in a session that was not ended."""
    for part in (result, *(result.get("words") or ())):
        for name in ("start_ms", "end_ms"):
            if name in part:
                part[name] = max(part[name], ended_ms)


def _is_time(name: str, value: Any) -> bool:
    return name.endswith("_ms") and name not in DURATIONS and isinstance(value, (int, float))
