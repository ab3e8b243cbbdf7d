"""Divides what is recognised into items: by the pauses of the speaker, or where the client commits.

An item collects text until it is committed. A client's commit, or clear, is also a flush in the session. Until the
session has answered it, everything that comes still belongs to the audio before it. Without turn detection that is one
item, so the client is answered at once. With it, pauses may still divide that audio, so the client is answered later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from streamer.limits import LONGEST_SEGMENT_MS, STEP_MS, WITHOUT_TEXT_MS
from streamer.text.joining import separator
from streamer.wire.dialects.openai_realtime.mistakes import COMMIT_EMPTY, Mistake
from streamer.wire.dialects.openai_realtime.server_events import ServerEvents
from streamer.wire.dialects.openai_realtime.settings import TurnDetection
from streamer.wire.events import Done, Flushed, Heard, Partial, ServerMessage, Speech, SpeechState
from streamer.wire.events import Final as FinalMessage

SHORTEST_COMMIT_MS: Final = 100
# After a pause without new text, words may still come for so long: they are known some steps after they were said.
_LATE_WORDS_MS: Final = 2 * STEP_MS
# Text that may change must become final within this time of silence.
_UNSETTLED_MS: Final = WITHOUT_TEXT_MS + 5_000
# A segment that is longer than this has perhaps ended only because of its length, so its turn may go on.
_LONG_MS: Final = LONGEST_SEGMENT_MS // 2
# If somebody still speaks but nothing is understood for so long, it was noise.
_NOISE_MS: Final = 5_000
# A segment that ends so close to a flush ended because of it: a pause ends one further back. A resampler holds back up
# to 30 ms.
_OF_FLUSH_MS: Final = 60


@dataclass
class _Item:
    name: str
    start_ms: int
    end_ms: int = 0
    text: str = ""  # everything that the client was told of it
    segment: str = ""  # of this, the text of the running segment
    begun: bool = False  # the client was told that speech started
    final_ms: int = 0  # when its last segment became final


@dataclass
class _Flush:
    at_ms: int
    answered: Callable[[], None]
    item: _Item | None = None  # what the text until then belongs to, without turn detection


class Turns:
    """The items of one session. Times count all audio that was appended; those of messages are converted."""

    def __init__(self, events: ServerEvents, name: str) -> None:
        """`name`: what the names of its items begin with."""
        self._events = events
        self._name = name
        self._number = 0
        self._told: list[str] = []
        self._detection: TurnDetection = None
        self._base_ms = 0  # where the present session of ours begins
        self._open: _Item | None = None  # collects text, and is not committed
        self._flushes: deque[_Flush] = deque()  # those under way
        self._end_ms = 0  # of the last item, or of cleared audio
        self._previous: str | None = None  # the last committed item
        self._heard_ms = 0
        self._speaking = False
        self._quiet_ms = 0  # since when nobody speaks

    @property
    def busy(self) -> bool:
        """Whether text is being collected, or a flush is under way."""
        return self._open is not None or bool(self._flushes)

    def begin(self, detection: TurnDetection, at_ms: int) -> None:
        """Note that another session of ours goes on here. Its messages come next."""
        self._detection = detection
        self._base_ms = self._heard_ms = self._quiet_ms = at_ms
        self._speaking = False

    def adjust(self, detection: TurnDetection) -> None:
        """Take settings that the session of ours does not depend on."""
        self._detection = detection

    def take(self, message: ServerMessage) -> list[str]:
        """Return the events for a message of the session."""
        if isinstance(message, Speech):
            self._follow(message)
        elif isinstance(message, Partial):
            self._add(message.text[: message.stable], message.start_ms, message.audio_ms)
        elif isinstance(message, FinalMessage):
            self._add(message.text, message.start_ms, message.audio_ms)
            self._settle(message)
        elif isinstance(message, (Heard, Flushed, Done)):
            self._hear(message.audio_ms)
        if isinstance(message, Flushed) and self._flushes:
            self._flushes.popleft().answered()
        turn = self._open if self._detection is not None else None
        if turn is not None and (isinstance(message, Done) or self._overdue(turn)):
            self._end_turn(turn, self._heard_ms)
        return self._take_told()

    def commit(self, at_ms: int, event_id: str | None, *, running: bool) -> tuple[list[str], bool]:
        """Make an item of the audio until now. If that is too short, an error comes instead.

        `running`: results may be under way. Returns whether a flush must follow, whose answer brings the rest.
        """
        if running and self._detection is not None:
            self._flushes.append(_Flush(at_ms, partial(self._commit_rest, at_ms, event_id)))
            return self._take_told(), True
        if not self._long_enough(at_ms, event_id):
            return self._take_told(), False
        item = self._commit_open(at_ms)
        if running:
            self._flushes.append(_Flush(at_ms, partial(self._complete, item), item))
        else:
            self._complete(item)
        return self._take_told(), running

    def clear(self, at_ms: int, *, running: bool) -> tuple[list[str], bool]:
        """Drop the audio since the last item. Returns whether a flush must follow, whose answer brings the rest."""
        flush = running and (self._detection is not None or at_ms > self._end_ms)
        if running and self._detection is not None:
            self._flushes.append(_Flush(at_ms, partial(self._drop, at_ms)))
        else:
            self._drop(at_ms)
            if flush:
                self._flushes.append(_Flush(at_ms, lambda: None))
        return self._take_told(), flush

    def fail(self, error: dict[str, Any]) -> list[str]:
        """Note that what is under way will never be known."""
        for flush in self._flushes:
            if flush.item is not None:
                self._say(self._events.failed(flush.item.name, error))
        self._flushes.clear()
        self._open = None
        return self._take_told()

    # Messages

    def _follow(self, speech: Speech) -> None:
        """Somebody began to speak, or stopped."""
        at_ms = self._base_ms + speech.at_ms
        self._speaking = speech.state is SpeechState.START
        if not self._speaking:
            self._quiet_ms = at_ms
            turn = self._open if self._detection is not None else None
            if turn is not None and turn.final_ms and not turn.segment and not self._of_flush(turn.final_ms):
                self._end_turn(turn, max(turn.final_ms, at_ms))
        elif self._detection is not None:
            self._begin_turn(at_ms)

    def _add(self, text: str, start_ms: int, audio_ms: int) -> None:
        """Tell the text of the running segment as far as it is new."""
        self._hear(audio_ms)
        if not text:
            return
        item: _Item | None
        if self._detection is not None:
            item = self._begin_turn(self._base_ms + start_ms)
        elif self._flushes:
            item = self._flushes[0].item
        else:
            item = self._open = self._open or self._new(self._end_ms)
        if item is None or len(text) <= len(item.segment):
            return
        new = text[len(item.segment) :]
        if not item.segment:
            new = separator(item.text, new) + new
        item.segment = text
        item.text += new
        self._say(self._events.delta(item.name, new))

    def _settle(self, final: FinalMessage) -> None:
        """Note that a segment is complete, which ends a turn unless the speaker goes on."""
        item = self._flushes[0].item if self._flushes and self._detection is None else self._open
        if item is None:
            return
        cut_ms = self._base_ms + max(final.audio_ms if final.cut_ms is None else final.cut_ms, final.end_ms)
        item.segment, item.final_ms = "", cut_ms
        long = final.audio_ms - final.start_ms >= _LONG_MS
        if self._detection is not None and not (self._speaking and long) and not self._of_flush(cut_ms):
            self._end_turn(item, cut_ms)

    def _of_flush(self, cut_ms: int) -> bool:
        """Whether a segment ended because of a flush. Then its answer says what becomes of the item."""
        return bool(self._flushes) and cut_ms >= self._flushes[0].at_ms - _OF_FLUSH_MS

    def _hear(self, audio_ms: int) -> None:
        self._heard_ms = max(self._heard_ms, self._base_ms + audio_ms)

    def _overdue(self, item: _Item) -> bool:
        """Whether a turn must end although no final says so: no words were heard, or they came to nothing."""
        assert self._detection is not None
        if self._speaking:
            return bool(item.final_ms) and not item.segment and self._heard_ms - item.final_ms >= _NOISE_MS
        patience_ms = _UNSETTLED_MS if item.segment else _LATE_WORDS_MS
        return self._heard_ms - self._quiet_ms >= self._detection.pause_ms + patience_ms

    # Items

    def _begin_turn(self, at_ms: int) -> _Item:
        if self._open is None:
            assert self._detection is not None
            self._open = self._new(max(self._end_ms, at_ms - self._detection.prefix_padding_ms))
        if not self._open.begun:
            self._open.begun = True
            # Words may come without a start of speech; their turn must not end at once.
            self._quiet_ms = max(self._quiet_ms, at_ms)
            self._say(self._events.speech_started(self._open.name, self._open.start_ms))
        return self._open

    def _end_turn(self, item: _Item, at_ms: int) -> None:
        self._open = None
        at_ms = max(at_ms, item.start_ms)
        self._say(self._events.speech_stopped(item.name, at_ms))
        self._commit(item, at_ms)
        self._complete(item)

    def _new(self, start_ms: int) -> _Item:
        self._number += 1
        return _Item(f"item_{self._name}_{self._number}", start_ms)

    def _long_enough(self, at_ms: int, event_id: str | None) -> bool:
        """Whether there is audio for an item. If not, say so."""
        length_ms = max(0, at_ms - self._end_ms)
        if length_ms >= SHORTEST_COMMIT_MS:
            return True
        what = f"A commit needs at least {SHORTEST_COMMIT_MS} ms of audio, but the buffer has only {length_ms} ms."
        self._say(self._events.error(Mistake(what, code=COMMIT_EMPTY).shown(event_id)))
        return False

    def _commit_rest(self, at_ms: int, event_id: str | None) -> None:
        """Commit what no pause has ended: all text of it is there."""
        if self._long_enough(at_ms, event_id):
            self._complete(self._commit_open(at_ms))

    def _commit_open(self, at_ms: int) -> _Item:
        item, self._open = self._open or self._new(self._end_ms), None
        if item.begun:
            self._say(self._events.speech_stopped(item.name, at_ms))
        self._commit(item, at_ms)
        return item

    def _drop(self, at_ms: int) -> None:
        self._open, self._end_ms = None, max(self._end_ms, at_ms)
        self._say(self._events.cleared())

    def _commit(self, item: _Item, at_ms: int) -> None:
        item.end_ms = self._end_ms = at_ms
        self._told += self._events.committed(item.name, self._previous)
        self._previous = item.name

    def _complete(self, item: _Item) -> None:
        self._say(self._events.completed(item.name, item.text, item.end_ms - item.start_ms))

    def _say(self, event: str) -> None:
        self._told.append(event)

    def _take_told(self) -> list[str]:
        told, self._told = self._told, []
        return told
