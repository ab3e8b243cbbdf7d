"""The results of one stream with the times of the session, from one sequence or several.

Pure. If a sequence is lost, another one begins at the last cut and hears the audio since then again (the replay). Its
samples, times and segments are shifted (`sequence_clock.py`), and results that the client already has are dropped here.
A final and its cut come in the same answer, so no final can come twice. Only partials, where speech began and ended,
what was said about a turn, and the events of other heads can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from streamer.bridge.session.sequence_clock import SequenceClock
from streamer.bridge.states import States
from streamer.wire.events import (
    Final,
    Flushed,
    HeadEvent,
    Partial,
    Result,
    Speech,
    SpeechState,
    Turn,
    content,
)
from streamer.wire.model_events import Cut, Heard, ModelEvent
from streamer.wire.text_context import TextContext

MOST_HEADS = 64  # whose events are not repeated: a name for each event must not fill the memory


class Hearing(Enum):
    """Whether the running segment is heard for the first time."""

    FIRST = "first"  # all of its results are new
    AGAIN = "again"  # by another sequence, after a loss: results that were already sent are dropped


TRANSITIONS = {Hearing.FIRST: (Hearing.AGAIN,), Hearing.AGAIN: (Hearing.FIRST,)}


class Replay:
    """The results of one stream, in order, each once."""

    def __init__(self, stream: int = 0, context: TextContext | None = None) -> None:
        """`context`: of the words before the stream, if a client goes on with it after another session."""
        self.resume: Mapping[str, Any] = {}  # the options for a sequence that begins at the cut
        if context is not None:
            self.resume = {"begins": context.begins, "context": content(context)["words"]}
        self.clock = SequenceClock()
        self._segment = _RunningSegment(stream)
        self._speech = _SpeechTold()
        self._turn_told = (-1, -1)  # the segment and the time of what was last said about a turn
        self._heads = _HeadsTold()

    @property
    def speaking(self) -> bool:
        """Whether somebody is speaking, as far as the client knows."""
        return self._speech.speaking

    def restart(self) -> None:
        """Expect the events of a new sequence, which begins at the cut."""
        self.clock.restart(self._segment.finals)
        self._segment.restart()
        self._speech.restart()
        self._heads.restart()

    def take(self, events: Iterable[ModelEvent], *, leaving: bool = False) -> list[Result]:
        """Return what the client gets of the events of one answer, with the session's times.

        `leaving`: if there is a cut, another sequence will begin there, and report what follows. So results after the
        cut are dropped.
        """
        events = list(events)
        cuts = [index for index, event in enumerate(events) if isinstance(event, Cut)]
        end = cuts[-1] if leaving and cuts else len(events)
        for event in events:
            if isinstance(event, Heard):
                self.clock.hear(event.sample)
        told: list[Result] = []
        for index, event in enumerate(events):
            if isinstance(event, Cut):
                self._end_segment(event, told)
            elif isinstance(event, Flushed):
                # After a flush nobody is speaking, and a sentence begins, unless the last words decide that.
                self.resume = self.resume if "context" in self.resume else {}
                told.append(Flushed(self.clock.replayed_ms))
            elif isinstance(event, Final):
                told.append(self._segment.final(self.clock.final(event)))
            elif isinstance(event, Partial) and index < end:
                told += self._segment.partial(self.clock.partial(event))
            elif isinstance(event, Speech) and index < end:
                told += self._speech.change(self.clock.speech(event))
            elif isinstance(event, Turn) and index < end:
                told += self._turn(self.clock.turn(event))
            elif isinstance(event, HeadEvent) and index < end:
                told += self._heads.tell(self.clock.head(event))
            # Other events, also those that later models add, are not for clients.
        return told

    def _turn(self, turn: Turn) -> list[Turn]:
        """Return what is said about a turn if it is new."""
        place = turn.segment, turn.audio_ms
        if place <= self._turn_told:
            return []
        self._turn_told = place
        return [turn]

    def _end_segment(self, cut: Cut, told: list[Result]) -> None:
        self.clock.end_segment(cut.sample)
        for index in range(len(told) - 1, -1, -1):
            final = told[index]
            if isinstance(final, Final):
                if final.cut_ms is None:
                    # If the service restarts, a client opens a new session and sends its audio from here on.
                    told[index] = replace(final, cut_ms=self.clock.cut_ms, context=_context(cut))
                break
        words = None if cut.context is None else [content(word) for word in cut.context]
        known = {"speaking": cut.speaking, "told": cut.told, "begins": cut.begins, "context": words}
        self.resume = {name: value for name, value in known.items() if value is not None}
        self._segment.end()
        self._speech.end_segment()


def _context(cut: Cut) -> TextContext | None:
    return None if cut.context is None else TextContext(cut.begins is not False, cut.context)


class _RunningSegment:
    """What the client knows of the text of the running segment."""

    def __init__(self, stream: int) -> None:
        self.finals = 0  # the number of finals so far
        self._hearing = States("replay", Hearing.FIRST, TRANSITIONS, stream=stream)
        self._partial_ms = -1  # audio_ms of the last partial of the running segment
        self._begun_ms = -1  # the same before a cut that had no final, after which the segment began again
        self._ended = 0  # the number of finals at the last cut
        self._stable = ""  # the stable text of the last partial

    def restart(self) -> None:
        """Note that the segment is heard again."""
        if self._hearing.now is Hearing.FIRST:
            self._hearing.become(Hearing.AGAIN)

    def partial(self, partial: Partial) -> list[Partial]:
        """Return the partial if it is new; never with less stable text than before."""
        stable, audio_ms = partial.stable, max(partial.audio_ms, self._begun_ms)
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
        # If a segment of the greatest length is cut before its first word, the same segment hears that word again.
        self._begun_ms = max(self._begun_ms, self._partial_ms) if self.finals == self._ended else -1
        self._ended = self.finals
        self._partial_ms, self._stable = -1, ""
        if self._hearing.now is Hearing.AGAIN:
            self._hearing.become(Hearing.FIRST)


class _HeadsTold:
    """What the client knows of the events of other heads."""

    def __init__(self) -> None:
        self._told_ms: dict[str, int] = {}  # the time of the last event by the name of its head
        self._again_until_ms: dict[str, int] = {}  # events up to this time come again

    def restart(self) -> None:
        """Expect events again that the sequence before has reported."""
        self._again_until_ms = dict(self._told_ms)

    def tell(self, event: HeadEvent) -> list[HeadEvent]:
        """Return the event if it is new."""
        if event.at_ms <= self._again_until_ms.get(event.name, -1):
            return []
        if len(self._told_ms) < MOST_HEADS or event.name in self._told_ms:
            self._told_ms[event.name] = max(event.at_ms, self._told_ms.get(event.name, -1))
        return [event]


class _SpeechTold:
    """What the client knows of where speech began and ended."""

    def __init__(self) -> None:
        self._last = SpeechState.END  # the state that the client knows
        self._at_cut = SpeechState.END  # the same at the last cut
        self._changes = 0  # how often it changed since then
        self._said = SpeechState.END  # the state that the present sequence reported last
        self._skip = 0  # how many changes the present sequence will report again

    @property
    def speaking(self) -> bool:
        """Whether the client knows that somebody is speaking."""
        return self._last is SpeechState.START

    def restart(self) -> None:
        """Expect a new sequence, which begins at the cut."""
        self._said, self._skip = self._at_cut, self._changes

    def change(self, speech: Speech) -> list[Speech]:
        """Return the change if it is new."""
        if speech.state is self._said:
            return []
        self._said = speech.state
        if self._skip:
            self._skip -= 1
            return []
        if speech.state is self._last:
            return []
        self._last = speech.state
        self._changes += 1
        return [speech]

    def end_segment(self) -> None:
        """Begin the next segment."""
        self._at_cut, self._changes, self._skip = self._last, 0, 0
