"""Divides the recognised text into items, at pauses or where the client commits, and makes the events about them.

An item collects text until it is committed. Its transcript has the words of the finals, which a second pass may have
corrected. Deltas come before and cannot be taken back, so a delta may have a word that the transcript has not.

A client's commit or clear also causes a flush in the session. Until the
session answers the flush, all text belongs to the audio before it. Without turn detection that audio is one item, and
the client gets its answer at once. With turn detection, pauses may still divide it, and the answer comes later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from streamer.base.events import Acknowledgement, Done, Flushed, Partial, ServerMessage, Speech, SpeechState, Word
from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.limits import LONGEST_SEGMENT_MS, STEP_MS, WITHOUT_TEXT_MS
from streamer.base.text import joined, separator, words_of
from streamer.wire.dialects.openai_settings import COMMIT_EMPTY, Mistake, TurnDetection
from streamer.wire.dialects.openai_upload import logprobs
from streamer.wire.native import encode

SHORTEST_COMMIT_MS: Final = 100
# After the beginning of a pause, new words may still come for this time: they are recognised some steps late.
_LATE_WORDS_MS: Final = 2 * STEP_MS
# Text that may change becomes final within this time of silence.
_UNSETTLED_MS: Final = WITHOUT_TEXT_MS + 5_000
# A longer segment may have ended only because of its length, so its turn may go on.
_LONG_MS: Final = LONGEST_SEGMENT_MS // 2
# If somebody seems to speak, but no word is recognised for this time, the speech is noise.
_NOISE_MS: Final = 5_000
# A segment that ends this close to a flush ended because of the flush: a pause would end it earlier. A resampler holds
# back up to 30 ms.
_OF_FLUSH_MS: Final = 60


@dataclass
class _Item:
    name: str
    start_ms: int
    end_ms: int = 0
    text: str = ""  # of all finals
    words: list[Word] = field(default_factory=list)  # of all finals, if the session has words
    told: str = ""  # all deltas together
    segment: str = ""  # the part of them that belongs to the running segment
    unsettled: bool = False  # the running segment has text, which is not final yet
    begun: bool = False  # the client knows that speech started
    final_ms: int = 0  # when its last segment became final


@dataclass
class _Flush:
    at_ms: int
    on_answer: Callable[[], None]
    item: _Item | None = None  # without turn detection: the item of the text before the flush


class Turns:
    """The items of one websocket. Times count from its first audio; the times of native sessions are converted."""

    def __init__(self, events: ServerEvents, name: str) -> None:
        """`name`: a part of the names of all items."""
        self._events = events
        self._name = name
        self.logprobs = False  # the client wants the probabilities of words
        self._number = 0
        self._outbox: list[str] = []  # events for the client
        self._detection: TurnDetection = None
        self._base_ms = 0  # where the present native session begins
        self._open: _Item | None = None  # the item that collects text until it is committed
        self._flushes: deque[_Flush] = deque()  # flushes without an answer
        self._end_ms = 0  # the end of the last item, or of cleared audio
        self._previous: str | None = None  # the last committed item
        self._audio_ms = 0  # the end of the recognised audio
        self._speaking = False
        self._quiet_ms = 0  # the end of the last speech

    @property
    def busy(self) -> bool:
        """Whether an item collects text, or a flush has no answer yet."""
        return self._open is not None or bool(self._flushes)

    def begin(self, detection: TurnDetection, at_ms: int) -> None:
        """Note that another native session begins here. The next messages are its messages."""
        self._detection = detection
        self._base_ms = self._audio_ms = self._quiet_ms = at_ms
        self._speaking = False
        if self._open is not None:
            self._open.segment, self._open.unsettled = "", False

    def adjust(self, detection: TurnDetection) -> None:
        """Take new settings of the turn detection. The native session goes on."""
        self._detection = detection

    def take(self, message: ServerMessage) -> list[str]:
        """Return the events for a message of the session."""
        if isinstance(message, Speech):
            self._follow(message)
        elif isinstance(message, Partial):
            self._guess(message)
        elif isinstance(message, FinalMessage):
            self._settle(message)
        elif isinstance(message, (Acknowledgement, Flushed, Done)):
            self._note_audio(message.audio_ms)
        if isinstance(message, Flushed) and self._flushes:
            self._flushes.popleft().on_answer()
        turn = self._open if self._detection is not None else None
        if turn is not None and (isinstance(message, Done) or self._overdue(turn)):
            self._end_turn(turn, self._audio_ms)
        return self._take_events()

    def commit(self, at_ms: int, event_id: str | None, *, running: bool) -> tuple[list[str], bool]:
        """Make an item of the audio until now, or an error if it is too short. Return events for the client.

        `running`: there is a native session, so more results may come. Also return whether a flush must follow, whose
        answer brings the rest.
        """
        if running and self._detection is not None:
            self._flushes.append(_Flush(at_ms, partial(self._commit_rest, at_ms, event_id)))
            return self._take_events(), True
        if not self._long_enough(at_ms, event_id):
            return self._take_events(), False
        item = self._commit_open(at_ms)
        if running:
            self._flushes.append(_Flush(at_ms, partial(self._complete, item), item))
        else:
            self._complete(item)
        return self._take_events(), running

    def clear(self, at_ms: int, *, running: bool) -> tuple[list[str], bool]:
        """Drop the audio since the last item. Return events, and whether a flush must follow that brings the rest."""
        flush = running and (self._detection is not None or at_ms > self._end_ms)
        if running and self._detection is not None:
            self._flushes.append(_Flush(at_ms, partial(self._drop, at_ms)))
        else:
            self._drop(at_ms)
            if flush:
                self._flushes.append(_Flush(at_ms, lambda: None))
        return self._take_events(), flush

    def fail(self, error: JsonObject) -> list[str]:
        """Return the events for the items whose text will never come, because the session has failed."""
        for flush in self._flushes:
            if flush.item is not None:
                self._send(self._events.failed(flush.item.name, error))
        self._flushes.clear()
        self._open = None
        return self._take_events()

    # Messages

    def _follow(self, speech: Speech) -> None:
        """Note that somebody began to speak or stopped, which may begin or end a turn."""
        at_ms = self._base_ms + speech.at_ms
        self._speaking = speech.state is SpeechState.START
        if not self._speaking:
            self._quiet_ms = at_ms
            turn = self._open if self._detection is not None else None
            if turn is not None and turn.final_ms and not turn.unsettled and not self._by_flush(turn.final_ms):
                self._end_turn(turn, max(turn.final_ms, at_ms))
        elif self._detection is not None:
            self._begin_turn(at_ms)

    def _guess(self, partial: Partial) -> None:
        """Tell the client the words that may be right. The last one waits for the next, as it may be half a word."""
        self._note_audio(partial.audio_ms)
        item = self._item_of(partial) if partial.text else None
        if item is not None:
            item.unsettled = True
            self._tell(item, joined(words_of(partial.text)[:-1]))

    def _settle(self, final: FinalMessage) -> None:
        """Note that a segment is complete. This ends the turn unless the speaker goes on."""
        self._note_audio(final.audio_ms)
        item = self._item_of(final) if final.text else self._item_now()
        if item is None:
            return
        self._tell(item, final.text)
        item.text += separator(item.text, final.text) + final.text
        item.words += final.words or ()
        cut_ms = self._base_ms + max(final.audio_ms if final.cut_ms is None else final.cut_ms, final.end_ms)
        item.segment, item.unsettled, item.final_ms = "", False, cut_ms
        long = final.audio_ms - final.start_ms >= _LONG_MS
        if self._detection is not None and not (self._speaking and long) and not self._by_flush(cut_ms):
            self._end_turn(item, cut_ms)

    def _item_of(self, message: Partial | FinalMessage) -> _Item | None:
        """Return the item for this text, which may begin it; None if its audio was cleared."""
        if self._detection is not None:
            return self._begin_turn(self._base_ms + message.start_ms)
        if not self._flushes:
            self._open = self._open or self._new(self._end_ms)
        return self._item_now()

    def _item_now(self) -> _Item | None:
        return self._flushes[0].item if self._flushes and self._detection is None else self._open

    def _tell(self, item: _Item, text: str) -> None:
        """Send the client what this text of the running segment has more than the deltas so far."""
        delta = _news(item.segment, text)
        if not delta:
            return
        if not item.segment:
            item.segment, delta = delta, separator(item.told, delta) + delta
        else:
            item.segment += delta
        item.told += delta
        self._send(self._events.delta(item.name, delta))

    def _by_flush(self, cut_ms: int) -> bool:
        """Return whether a flush ended the segment. Then the answer to the flush decides about the item."""
        return bool(self._flushes) and cut_ms >= self._flushes[0].at_ms - _OF_FLUSH_MS

    def _note_audio(self, audio_ms: int) -> None:
        self._audio_ms = max(self._audio_ms, self._base_ms + audio_ms)

    def _overdue(self, item: _Item) -> bool:
        """Return whether a turn must end without a final, because it has had no words, or its words were dropped."""
        assert self._detection is not None
        if self._speaking:
            return bool(item.final_ms) and not item.unsettled and self._audio_ms - item.final_ms >= _NOISE_MS
        patience_ms = _UNSETTLED_MS if item.unsettled else _LATE_WORDS_MS
        return self._audio_ms - self._quiet_ms >= self._detection.pause_ms + patience_ms

    # Items

    def _begin_turn(self, at_ms: int) -> _Item:
        if self._open is None:
            assert self._detection is not None
            self._open = self._new(max(self._end_ms, at_ms - self._detection.prefix_padding_ms))
        if not self._open.begun:
            self._open.begun = True
            # Words may come without the event that speech began. Their turn must not end at once.
            self._quiet_ms = max(self._quiet_ms, at_ms)
            self._send(self._events.speech_started(self._open.name, self._open.start_ms))
        return self._open

    def _end_turn(self, item: _Item, at_ms: int) -> None:
        self._open = None
        at_ms = max(at_ms, item.start_ms)
        self._send(self._events.speech_stopped(item.name, at_ms))
        self._commit(item, at_ms)
        self._complete(item)

    def _new(self, start_ms: int) -> _Item:
        self._number += 1
        return _Item(f"item_{self._name}_{self._number}", start_ms)

    def _long_enough(self, at_ms: int, event_id: str | None) -> bool:
        """Return whether there is enough audio for an item. Send an error if not."""
        length_ms = max(0, at_ms - self._end_ms)
        if length_ms >= SHORTEST_COMMIT_MS:
            return True
        why = f"A commit needs at least {SHORTEST_COMMIT_MS} ms of audio, but the buffer has only {length_ms} ms."
        self._send(self._events.error(Mistake(why, code=COMMIT_EMPTY).content(event_id)))
        return False

    def _commit_rest(self, at_ms: int, event_id: str | None) -> None:
        """Commit the audio since the last pause. All of its text has come."""
        if self._long_enough(at_ms, event_id):
            self._complete(self._commit_open(at_ms))

    def _commit_open(self, at_ms: int) -> _Item:
        item, self._open = self._open or self._new(self._end_ms), None
        if item.begun:
            self._send(self._events.speech_stopped(item.name, at_ms))
        self._commit(item, at_ms)
        return item

    def _drop(self, at_ms: int) -> None:
        self._open, self._end_ms = None, max(self._end_ms, at_ms)
        self._send(self._events.cleared())

    def _commit(self, item: _Item, at_ms: int) -> None:
        item.end_ms = self._end_ms = at_ms
        self._outbox += self._events.committed(item.name, self._previous)
        self._previous = item.name

    def _complete(self, item: _Item) -> None:
        words = item.words if self.logprobs else None
        self._send(self._events.completed(item.name, item.text, item.end_ms - item.start_ms, words))

    def _send(self, event: str) -> None:
        self._outbox.append(event)

    def _take_events(self) -> list[str]:
        events, self._outbox = self._outbox, []
        return events


def _news(told: str, text: str) -> str:
    """Return what the text of a segment has more than this part of it, which may have other words by now."""
    if text.startswith(told):
        return text[len(told) :]
    rest = joined(words_of(text)[len(words_of(told)) :])
    return separator(told, rest) + rest


# The events that a client receives in OpenAI's realtime format. Each event has its own `event_id`.

_TRANSCRIPTION: Final = "conversation.item.input_audio_transcription"


class ServerEvents:
    """A writer of the events of one session, in the newer shape or the older one."""

    def __init__(self, session: str, *, flat: bool) -> None:
        """`flat`: the client uses the older shape."""
        self.flat = flat
        self._session = session
        self._number = 0

    def write(self, type: str, **content: Any) -> str:
        """Return an event of this type."""
        self._number += 1
        return encode({"type": type, "event_id": f"event_{self._session}_{self._number}", **content})

    def error(self, content: Mapping[str, object]) -> str:
        """Return an error event. The session stays open unless the connection is closed."""
        return self.write("error", error=content)

    def speech_started(self, item: str, at_ms: int) -> str:
        """Return the event for: somebody began to speak."""
        return self.write("input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id=item)

    def speech_stopped(self, item: str, at_ms: int) -> str:
        """Return the event for: the turn is over."""
        return self.write("input_audio_buffer.speech_stopped", audio_end_ms=at_ms, item_id=item)

    def committed(self, item: str, previous: str | None) -> list[str]:
        """Return the events for: the audio of an item is complete, and the item exists."""
        events = [self.write("input_audio_buffer.committed", previous_item_id=previous, item_id=item)]
        for name in ("created",) if self.flat else ("added", "done"):
            event = self.write(f"conversation.item.{name}", previous_item_id=previous, item=_item(item))
            events.append(event)
        return events

    def cleared(self) -> str:
        """Return the event for: the audio since the last item was dropped."""
        return self.write("input_audio_buffer.cleared")

    def delta(self, item: str, text: str) -> str:
        """Return the event for more text of an item."""
        return self.write(f"{_TRANSCRIPTION}.delta", item_id=item, content_index=0, delta=text)

    def completed(self, item: str, transcript: str, duration_ms: int, words: Sequence[Word] | None = None) -> str:
        """Return the event with the whole text of an item. `words`: those whose probabilities the client wants."""
        usage = {"type": "duration", "seconds": duration_ms / 1000}
        content: JsonObject = {"item_id": item, "content_index": 0, "transcript": transcript, "usage": usage}
        if words is not None:
            content["logprobs"] = logprobs((word.word, word.confidence or 0.0) for word in words)
        return self.write(f"{_TRANSCRIPTION}.completed", **content)

    def failed(self, item: str, error: Mapping[str, object]) -> str:
        """Return the event for: an item has no transcript."""
        return self.write(f"{_TRANSCRIPTION}.failed", item_id=item, content_index=0, error=error)


def _item(item: str) -> JsonObject:
    content = [{"type": "input_audio", "transcript": None}]
    return {
        "id": item,
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": content,
    }
