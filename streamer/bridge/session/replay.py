"""The results of one stream with the times of the session, from one sequence or several.

Pure. If a sequence is lost, another one begins at the last cut and hears the audio since then again (the replay).
`SequenceClock` shifts its samples, times and segments, and `Replay` drops results that the client already has. A
final and its cut come in the same answer, so a final cannot come twice. But partials, turns, the beginnings and ends of
speech, and the events of other heads can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Protocol, TypeVar, get_args

from streamer.audio.decoder import SAMPLE_RATE
from streamer.base.events import (
    Cut,
    Final,
    Flushed,
    Heard,
    ModelEvent,
    Partial,
    Result,
    Speech,
    SpeechState,
    StreamResult,
    Turn,
    Unit,
    Word,
    content,
    units_of,
)
from streamer.base.text_context import TextContext
from streamer.bridge.states import States

R = TypeVar("R", bound=StreamResult)

_UNITS: Mapping[type[object], tuple[tuple[str, Unit], ...]] = {
    kind: units_of(kind) for kind in (*get_args(StreamResult), Word)
}

MOST_KINDS = 64  # whose repeated events are dropped; the bound keeps many names of heads from filling the memory


class Hearing(Enum):
    """Whether a sequence hears the running segment for the first time."""

    FIRST = "first"  # all of its results are new
    AGAIN = "again"  # another sequence hears it after a loss, and results that were already sent are dropped


TRANSITIONS = {Hearing.FIRST: (Hearing.AGAIN,), Hearing.AGAIN: (Hearing.FIRST,)}


class Replay:
    """The results of one stream, in order, each once."""

    def __init__(self, stream: int = 0, context: TextContext | None = None) -> None:
        """`context`: the words before the stream, if it continues another session of the client."""
        self.options: Mapping[str, Any] = {}  # for a sequence that begins at the cut
        if context is not None:
            self.options = {name: value for name, value in content(context).items() if name != "words"}
            self.options["context"] = content(context)["words"]
        self.clock = SequenceClock()
        self._segment = _RunningSegment(stream)
        self._speech = _SpeechView(context)
        self._last_turn = (-1, -1)  # the segment and the time of the last event about a turn
        self._others = _OthersView()

    @property
    def speaking(self) -> bool:
        """Whether the client knows that somebody is speaking."""
        return self._speech.speaking

    def restart(self) -> None:
        """Expect the events of a new sequence, which begins at the cut."""
        self.clock.restart(self._segment.finals)
        self._segment.restart()
        self._speech.restart()
        self._others.restart()

    def take(self, events: Iterable[ModelEvent], *, leaving: bool = False) -> list[Result]:
        """Return the results for the client in the events of one answer, with the session's times.

        `leaving`: another sequence will begin at the last cut, if there is one, and report what follows. So results
        after that cut are dropped.
        """
        events = list(events)
        cuts = [index for index, event in enumerate(events) if isinstance(event, Cut)]
        end = cuts[-1] if leaving and cuts else len(events)
        for event in events:
            if isinstance(event, Heard):
                self.clock.hear(event.sample)
        results: list[Result] = []
        for index, event in enumerate(events):
            if isinstance(event, Cut):
                self._end_segment(event, results)
            elif isinstance(event, Flushed):
                # After a flush, nobody is speaking. A new sentence begins, unless the last words say otherwise.
                self.options = self.options if "context" in self.options else {}
                results.append(Flushed(self.clock.replayed_ms))
            elif isinstance(event, Final):
                results.append(self._segment.final(self.clock.convert(event)))
            elif index >= end or not isinstance(event, StreamResult):
                continue  # the event is for the bridge, or this version does not know it
            elif isinstance(event, Partial):
                results += self._segment.partial(self.clock.convert(event))
            elif isinstance(event, Speech):
                results += self._speech.change(self.clock.convert(event))
            elif isinstance(event, Turn):
                results += self._turn(self.clock.convert(event))
            else:
                results += self._others.report(self.clock.convert(event))
        return results

    def _turn(self, turn: Turn) -> list[Turn]:
        """Return the event about a turn if it is new."""
        place = turn.segment, turn.audio_ms
        if place <= self._last_turn:
            return []
        self._last_turn = place
        return [turn]

    def _end_segment(self, cut: Cut, results: list[Result]) -> None:
        self.clock.end_segment(cut.sample)
        for index in range(len(results) - 1, -1, -1):
            final = results[index]
            if isinstance(final, Final):
                if final.cut_ms is None:
                    # If the service restarts, a client opens a new session and sends its audio from here on.
                    results[index] = replace(final, cut_ms=self.clock.cut_ms, context=_context(cut))
                break
        self.options = {name: value for name, value in content(cut).items() if name != "sample"}
        self._segment.end()
        self._speech.end_segment()


def _context(cut: Cut) -> TextContext | None:
    speaking = cut.speaking or None
    told = None if cut.told == bool(cut.speaking) else cut.told
    if cut.context is None and speaking is None and told is None and cut.begins is not False:
        return None
    return TextContext(cut.begins is not False, cut.context or (), speaking, told)


class _RunningSegment:
    """The text of the running segment that the client knows."""

    def __init__(self, stream: int) -> None:
        self.finals = 0  # the number of finals so far
        self._hearing = States("replay", Hearing.FIRST, TRANSITIONS, stream=stream)
        self._partial_ms = -1  # audio_ms of the last partial of the running segment
        self._earlier_ms = -1  # the same before a cut without a final, after which the same segment goes on
        self._finals_at_cut = 0  # the number of finals at the last cut
        self._stable = ""  # the stable text of the last partial

    def restart(self) -> None:
        """Note that the segment is heard again."""
        if self._hearing.now is Hearing.FIRST:
            self._hearing.become(Hearing.AGAIN)

    def partial(self, partial: Partial) -> list[Partial]:
        """Return the partial if it is new, with at least as much stable text as before."""
        stable, audio_ms = partial.stable, max(partial.audio_ms, self._earlier_ms)
        if self._hearing.now is Hearing.AGAIN:
            if partial.audio_ms <= self._partial_ms or not partial.text.startswith(self._stable):
                return []
            stable = max(stable, len(self._stable))
        self._partial_ms = partial.audio_ms
        self._stable = partial.text[:stable]
        if (stable, audio_ms) == (partial.stable, partial.audio_ms):
            return [partial]
        return [replace(partial, stable=stable, audio_ms=audio_ms)]

    def final(self, final: Final) -> Final:
        """Note the final of the segment."""
        self.finals = final.segment + 1
        return final

    def end(self) -> None:
        """Begin the next segment."""
        # A segment of the greatest length may be cut before its first word, which it hears again after the cut.
        self._earlier_ms = max(self._earlier_ms, self._partial_ms) if self.finals == self._finals_at_cut else -1
        self._finals_at_cut = self.finals
        self._partial_ms, self._stable = -1, ""
        if self._hearing.now is Hearing.AGAIN:
            self._hearing.become(Hearing.FIRST)


class _Momentary(Protocol):
    """An event that happens at one time."""

    @property
    def type(self) -> str: ...
    @property
    def at_ms(self) -> int: ...


M = TypeVar("M", bound=_Momentary)


class _OthersView:
    """The events that the client knows of those kinds that need no more care, such as those of heads."""

    def __init__(self) -> None:
        self._last_ms: dict[tuple[str, str], int] = {}  # the time of the last event of each kind, and of each head
        self._repeated_until_ms: dict[tuple[str, str], int] = {}  # events up to this time come again

    def restart(self) -> None:
        """Expect the events again that the sequence before has reported."""
        self._repeated_until_ms = dict(self._last_ms)

    def report(self, event: M) -> list[M]:
        """Return the event if it is new."""
        kind = event.type, getattr(event, "name", "")
        if event.at_ms <= self._repeated_until_ms.get(kind, -1):
            return []
        if len(self._last_ms) < MOST_KINDS or kind in self._last_ms:
            self._last_ms[kind] = max(event.at_ms, self._last_ms.get(kind, -1))
        return [event]


class _SpeechView:
    """The beginnings and ends of speech that the client knows."""

    def __init__(self, context: TextContext | None) -> None:
        told = context is not None and (bool(context.speaking) if context.told is None else context.told)
        self._last = SpeechState.START if told else SpeechState.END  # the state that the client knows
        self._at_cut = self._last  # the same at the last cut
        self._changes = 0  # the number of changes since then
        self._reported = self._last  # the state that the present sequence reported last
        self._repeats = 0  # the number of changes that the present sequence will report again

    @property
    def speaking(self) -> bool:
        """Whether the client knows that somebody is speaking."""
        return self._last is SpeechState.START

    def restart(self) -> None:
        """Expect a new sequence, which begins at the cut."""
        self._reported, self._repeats = self._at_cut, self._changes

    def change(self, speech: Speech) -> list[Speech]:
        """Return the change if it is new."""
        if speech.state is self._reported:
            return []
        self._reported = speech.state
        if self._repeats:
            self._repeats -= 1
            return []
        if speech.state is self._last:
            return []
        self._last = speech.state
        self._changes += 1
        return [speech]

    def end_segment(self) -> None:
        """Begin the next segment."""
        self._at_cut, self._changes, self._repeats = self._last, 0, 0


# Converts the times of a sequence to those of the session.


class SequenceClock:
    """The sample at which the present sequence began, and the one up to which it has heard."""

    def __init__(self) -> None:
        self.cut = 0  # the audio from this sample on may be needed again
        self.heard = 0  # samples that a sequence has acknowledged, present or former
        self.replayed = 0  # the sample up to which the present sequence has heard
        self._offset = 0  # the sample where the present sequence began
        self._first = 0  # the number of its first segment
        self._ended_ms = 0  # the end of the last final
        self._by_unit: Mapping[Unit, Callable[[int], int]] = {
            Unit.TIME: self._at,
            Unit.WORD_TIME: self._word_at,
            Unit.HEAD_TIME: lambda milliseconds: milliseconds + _ms(self._offset),
            Unit.SEGMENT: lambda segment: segment + self._first,
            Unit.SAMPLE: lambda sample: sample + self._offset,
        }

    @property
    def cut_ms(self) -> int:
        """The time of the cut."""
        return _ms(self.cut)

    @property
    def replayed_ms(self) -> int:
        """The time up to which the present sequence has heard."""
        return _ms(self.replayed)

    def restart(self, segment: int) -> None:
        """Begin another sequence at the cut, with this segment."""
        self._offset = self.replayed = self.cut
        self._first = segment

    def hear(self, sample: int) -> None:
        """Note up to which of its samples the present sequence has heard."""
        self.replayed = self._offset + sample
        self.heard = max(self.heard, self.replayed)

    def end_segment(self, sample: int) -> None:
        """Note a cut of the present sequence."""
        self.cut = self._offset + sample

    def convert(self, event: R) -> R:
        """Convert an event to the session's times and segments. No later word will begin before the end of a final."""
        if self._offset or not self._has_session_times(event):
            values = self._converted(event)
            if isinstance(event, (Partial, Final)) and event.words is not None:
                values["words"] = tuple(replace(word, **self._converted(word)) for word in event.words)
            event = replace(event, **values)
        if isinstance(event, Final):
            self._ended_ms = max(self._ended_ms, event.end_ms)
        return event

    def _converted(self, part: object) -> dict[str, Any]:
        """Return the converted values of those fields that have a unit."""
        return {name: self._by_unit[unit](getattr(part, name)) for name, unit in _UNITS[type(part)]}

    def _has_session_times(self, result: Result) -> bool:
        """Return whether the times of a result already are those of the session, if the sequence began with it."""
        if not isinstance(result, (Partial, Final)):
            return True
        return result.start_ms >= self._ended_ms and all(word.start_ms >= self._ended_ms for word in result.words or ())

    def _at(self, milliseconds: int) -> int:
        """Convert a time to the session's clock, exactly as if a single sequence had heard everything."""
        # Samples are rounded down to milliseconds, so the result depends on the sample from which they count. A time
        # counts from the start of its segment, except one at the very end of the audio.
        if milliseconds == _ms(self.replayed - self._offset):
            return _ms(self.replayed)
        return milliseconds + _ms(self.cut) - _ms(self.cut - self._offset)

    def _word_at(self, milliseconds: int) -> int:
        # A sequence knows only its own finals. So make sure here that no time is before the end of the last final.
        return max(self._at(milliseconds), self._ended_ms)


def _ms(samples: int) -> int:
    return samples * 1000 // SAMPLE_RATE
