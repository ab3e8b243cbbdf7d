"""How far a session has come: what the client has passed on, and what will come again after a restart.

A session of the client may use several sessions of the service, one after the other. This module turns their messages
into events with the times, segments and numbers of one session. It is pure. The JavaScript client has the same in
streamer/web/progress.js.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from streamer.client.kept_audio import LAG_MS
from streamer.wire.options import Start

Message = dict[str, Any]
# If the last word of a final ends so shortly before the end of the recognised audio, no pause has ended the segment.
ABRUPT_MS: Final = 400
# Two changes of a turn are further apart than this; the times of a repeated one may be rounded differently.
TURN_MS: Final = 20
# Fields in milliseconds that are durations, not times.
DURATIONS: Final = ("gap_ms", "unrecognised_ms", "pause_ms")


class Progress:
    """What the service has said, what of it was passed on, and from where another session must recognise again."""

    def __init__(self, start: Start) -> None:
        """`start`: the options of the session that describe its channels and segments."""
        self.seen = 1  # the number of the last message; `ready` has the first one
        self.heard_ms = 0.0
        self.flushes = 0  # how many flushes were answered
        self.done = False
        self.restarts = 0  # how often the service's session was replaced since the last final
        self._multichannel = start.multichannel
        window_ms = start.endpoint.longest_ms + LAG_MS
        self._channels = [_Channel(window_ms) for _ in range(start.channels if start.multichannel else 1)]
        self._doubtful = _Doubtful()
        self._from_ms = 0.0  # the time in our session at which the service's present session began
        self._n = 0  # what is added to the numbers of its messages

    @property
    def cuts_ms(self) -> list[float]:
        """For each channel, the time after which audio may still become part of a final."""
        return [channel.cut_ms for channel in self._channels]

    @property
    def contexts(self) -> list[Message | None]:
        """For each channel, the words before its cut; empty if the service has said none."""
        found = [channel.context for channel in self._channels]
        return found if any(found) else []

    @property
    def after(self) -> int:
        """The number that the service itself gave to the last message."""
        return self.seen - self._n

    @property
    def doubtful(self) -> bool:
        """Whether messages are held back because the service may be about to end the session."""
        return bool(self._doubtful.kept)

    def receive(self, message: Message, *, asked: bool) -> list[Message]:
        """Take a message, and return what may be passed on. `asked`: the client has asked for the end of a segment."""
        message = self._shifted(message)
        number = message.get("n")
        if isinstance(number, int):
            if number <= self.seen:
                return []
            self.seen = number
        self.heard_ms = max(self.heard_ms, message.get("audio_ms", 0))
        if self._doubtful.keep(message, asked=asked):
            return []
        told = [*self.believe(), *self._told([message])]
        if not told and number is not None:
            # It was passed on before a restart: the next message gets its number.
            self.seen -= 1
            self._n -= 1
        return told

    def believe(self) -> list[Message]:
        """The service goes on: return the messages that were held back and may be passed on now."""
        return self._told(self._doubtful.take())

    def restart(self, from_ms: float) -> list[Message]:
        """Go on from this time in another session of the service. Returns an event for each channel that says so."""
        # What was held back will be recognised again, so its numbers are free.
        again = [message["n"] for message in self._doubtful.take() if "n" in message]
        self.seen = min(again, default=self.seen + 1) - 1
        self.restarts += 1
        self.heard_ms = self._from_ms = from_ms
        return [self._restarted(number, channel) for number, channel in enumerate(self._channels)]

    def _restarted(self, number: int, channel: _Channel) -> Message:
        # The last of these events takes the number of the new session's `ready`.
        self._n = self.seen
        self.seen += 1
        segment = channel.restart()
        event = {"type": "restarted", "n": self.seen, "from_ms": int(channel.cut_ms), "segment": segment}
        return {**event, "channel": number} if self._multichannel else event

    def _told(self, messages: Iterable[Message]) -> list[Message]:
        return [message for message in messages if self._tell(message)]

    def _tell(self, message: Message) -> bool:
        if message["type"] == "flushed":
            self.flushes += 1
        elif message["type"] == "final":
            self.restarts = 0
        elif message["type"] == "done":
            self.done = True
        return all(channel.tell(message) for channel in self._concerned(message))

    def _concerned(self, message: Message) -> Sequence[_Channel]:
        number = message.get("channel")
        own = self._channels[number : number + 1] if isinstance(number, int) else []
        return own or self._channels

    def _shifted(self, message: Message) -> Message:
        if self._n == 0:
            return message
        moved: Message = _later(message, self._from_ms)
        if message["type"] == "head":
            moved["content"] = message["content"]  # only its head knows what is a time in it
        if isinstance(moved.get("n"), int):
            moved["n"] += self._n
        if isinstance(moved.get("segment"), int):
            moved["segment"] += self._concerned(moved)[0].first_segment
        return moved


@dataclass
class _Channel:
    """What was passed on for one channel, or for all channels if they are mixed."""

    window_ms: int  # a final never contains audio from longer ago than this
    cut_ms: float = 0
    context: Message | None = None  # of the last final; another session needs it to write the next words the same way
    heard_ms: float = 0
    first_segment: int = 0  # the number of the first segment in the service's present session
    _segments: int = 0
    _speaking: bool = False
    _changed_ms: float = -1  # when `_speaking` last changed
    _again_until_ms: float | None = None  # after a restart: changes up to this time come again
    _turn: tuple[int, float] = (-1, 0)  # the segment and the time of what was last said about a turn
    _heads_ms: dict[str, float] = field(default_factory=dict)  # the time of the last event of each head
    _heads_again_until_ms: dict[str, float] = field(default_factory=dict)

    def restart(self) -> int:
        """Another session of the service goes on at the cut. Returns the number of its first segment."""
        self.first_segment = self._segments
        self._again_until_ms = self._changed_ms
        self._heads_again_until_ms = dict(self._heads_ms)
        return self.first_segment

    def tell(self, message: Message) -> bool:
        """Note that a message is about to be passed on. False if it was passed on before."""
        kind = message["type"]
        if kind == "speech":
            return self._tell_speech(message)
        if kind == "turn" and not self._tell_turn(message):
            return False
        if kind == "head":
            return self._tell_head(message)
        if kind == "final":
            self._segments += 1
            self.context = message.pop("context", self.context)
        cut_ms = message.get("audio_ms" if kind == "flushed" else "cut_ms", 0)
        self.heard_ms = max(self.heard_ms, message.get("audio_ms", 0))
        self.cut_ms = max(self.cut_ms, cut_ms, self.heard_ms - self.window_ms)
        return True

    def _tell_head(self, event: Message) -> bool:
        if event["at_ms"] <= self._heads_again_until_ms.get(event["name"], -1):
            return False
        self._heads_ms[event["name"]] = event["at_ms"]
        return True

    def _tell_speech(self, speech: Message) -> bool:
        speaking = speech["state"] == "start"
        again = self._again_until_ms
        if again is not None and (speech["at_ms"] <= again or speaking == self._speaking):
            return False
        self._speaking, self._changed_ms = speaking, speech["at_ms"]
        return True

    def _tell_turn(self, turn: Message) -> bool:
        if (turn["segment"], turn["audio_ms"]) < (self._turn[0], self._turn[1] + TURN_MS):
            return False
        self._turn = turn["segment"], turn["audio_ms"]
        return True


class _Doubtful:
    """Holds back messages while the service may be about to shut down.

    A service that shuts down ends its segments, perhaps within a word, and says so in its next message. So a final that
    may be such an end is held back, with everything after it, until it is known whether the service goes on. If it does
    not, another session recognises the audio again.
    """

    def __init__(self) -> None:
        self.kept: list[Message] = []
        self._doubts: dict[object, float] = {}  # such channels, and how much of each had been recognised

    def keep(self, message: Message, *, asked: bool) -> bool:
        """Whether to hold this message back. `asked`: the client has asked for the end of a segment."""
        kind, channel, heard_ms = message["type"], message.get("channel"), message.get("audio_ms", 0)
        if kind == "final" and not asked and "turn" not in message and heard_ms - message.get("end_ms", 0) < ABRUPT_MS:
            self._doubts[channel] = heard_ms
        elif kind == "partial":
            self._doubts.pop(channel, None)
        elif kind not in ("final", "speech"):
            self._doubts = {} if kind == "done" else {of: ms for of, ms in self._doubts.items() if ms >= heard_ms}
        if self._doubts:
            self.kept.append(message)
        return bool(self._doubts)

    def take(self) -> list[Message]:
        """Return the messages that were held back, and hold back none of them any more."""
        kept, self.kept, self._doubts = self.kept, [], {}
        return kept


def _later(value: Any, ms: float) -> Any:
    """Return a copy in which all times are later."""
    if isinstance(value, list):
        return [_later(each, ms) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: math.floor(each + ms + 0.5) if _is_time(name, each) else _later(each, ms) for name, each in value.items()
    }


def _is_time(name: str, value: Any) -> bool:
    return name.endswith("_ms") and name not in DURATIONS and isinstance(value, (int, float))
