"""What a stream's model says, on the clock of the session: one replay, however many sequences it takes.

Pure. A sequence that is lost is followed by one that begins at the last cut and hears the audio since then again.
Its samples, times and segments are shifted (`sequence_clock.py`), and what it says again of that audio is dropped here.
A final and its cut come in one answer, so no final can come twice: what was told of the running segment is partials and
where speech began and ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum

from streamer.bridge.session.sequence_clock import SequenceClock
from streamer.bridge.states import States
from streamer.wire.events import Final, Flushed, Partial, Result, Speech, SpeechState
from streamer.wire.model_events import Cut, Heard, ModelEvent


class Hearing(Enum):
    """How the running segment is heard."""

    FIRST = "first"  # for the first time: all that is said of it is news
    AGAIN = "again"  # by a sequence that follows a lost one: what was told of it is dropped


TRANSITIONS = {Hearing.FIRST: (Hearing.AGAIN,), Hearing.AGAIN: (Hearing.FIRST,)}


class Replay:
    """The events of one stream, in order, each once."""

    def __init__(self, stream: int = 0) -> None:
        self.resume: Mapping[str, bool] = {}  # options with which a sequence goes on at the cut
        self.clock = SequenceClock()
        self._segment = _RunningSegment(stream)
        self._speech = _SpeechTold()

    @property
    def hearing(self) -> Hearing:
        """How the running segment is heard."""
        return self._segment.hearing

    def restart(self) -> None:
        """The next events are those of a new sequence, which begins at the cut."""
        self.clock.restart(self._segment.finals)
        self._segment.restart()
        self._speech.restart()

    def take(self, events: Iterable[ModelEvent], *, leaving: bool = False) -> list[Result]:
        """The events of one answer: what of them is for the client, in the session's times.

        `leaving`: if there is a cut among them, another sequence goes on there, and has to tell itself what follows.
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
                self.resume = {}
                told.append(Flushed(self.clock.replayed_ms))
            elif isinstance(event, Final):
                told.append(self._segment.final(self.clock.final(event)))
            elif isinstance(event, Partial) and index < end:
                told += self._segment.partial(self.clock.partial(event))
            elif isinstance(event, Speech) and index < end:
                told += self._speech.change(self.clock.speech(event))
            # What else a model says, or a later one adds, is not for clients.
        return told

    def _end_segment(self, cut: Cut, told: list[Result]) -> None:
        self.clock.end_segment(cut.sample)
        for index in range(len(told) - 1, -1, -1):
            final = told[index]
            if isinstance(final, Final):
                if final.cut_ms is None:
                    # A client that has to begin anew, because the service itself was, goes on with the audio from here.
                    told[index] = replace(final, cut_ms=self.clock.cut_ms)
                break
        known = {"speaking": cut.speaking, "begins": cut.begins}
        self.resume = {name: value for name, value in known.items() if value is not None}
        self._segment.end()
        self._speech.end_segment()


class _RunningSegment:
    """What was told of the text of the running segment."""

    def __init__(self, stream: int) -> None:
        self.finals = 0  # told
        self._hearing = States("replay", Hearing.FIRST, TRANSITIONS, stream=stream)
        self._partial_ms = -1  # what the last partial of the running segment had heard
        self._begun_ms = -1  # and one before it was begun again, without a final
        self._ended = 0  # finals told at the last cut
        self._stable = ""  # what the last partial promised

    @property
    def hearing(self) -> Hearing:
        """How it is heard."""
        return self._hearing.now

    def restart(self) -> None:
        """It is heard once more."""
        if self._hearing.now is Hearing.FIRST:
            self._hearing.become(Hearing.AGAIN)

    def partial(self, partial: Partial) -> list[Partial]:
        """What of it is news."""
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
        """It has its final."""
        self.finals = final.segment + 1
        return final

    def end(self) -> None:
        """The next one begins."""
        # Where the longest segment was cut before its first word, the same segment hears that word once more.
        self._begun_ms = max(self._begun_ms, self._partial_ms) if self.finals == self._ended else -1
        self._ended = self.finals
        self._partial_ms, self._stable = -1, ""
        if self._hearing.now is Hearing.AGAIN:
            self._hearing.become(Hearing.FIRST)


class _SpeechTold:
    """Where speech began and ended, as it was told."""

    def __init__(self) -> None:
        self._last = SpeechState.END  # what was told last,
        self._at_cut = SpeechState.END  # and before the running segment,
        self._changes = 0  # and how often it changed in it
        self._said = SpeechState.END  # what the present sequence said of it
        self._skip = 0  # changes that it says again

    def restart(self) -> None:
        """The next sequence begins at the cut."""
        self._said, self._skip = self._at_cut, self._changes

    def change(self, speech: Speech) -> list[Speech]:
        """What of it is news."""
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
        """The next segment begins."""
        self._at_cut, self._changes, self._skip = self._last, 0, 0
