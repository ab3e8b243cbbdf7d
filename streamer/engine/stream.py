"""One stream inside the recogniser: the steps of its running segment, and the events that it still has to send."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from streamer.engine.endpointing import SegmentEnd, paused
from streamer.engine.handling import Handling, Reread
from streamer.engine.models.activity_tracker import ActivityReading, ActivityRule, ActivityTracker
from streamer.engine.models.speech_watch import SpeechChange, SpeechWatch
from streamer.engine.search.search import NO_WORDS, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.segment_audio import TAIL_MS, Supply, TimeScale, piece_samples
from streamer.engine.slots import SlotLease
from streamer.engine.stream_events import Again, Cut, Flushed, Heard, Speech, StreamEvent, Turn
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.result_builder import ResultBuilder, SegmentEnding, SegmentPosition
from streamer.engine.turn.turn_watch import TurnState, TurnWatch, frames_to_end
from streamer.engine.work.parts import Work
from streamer.limits import WHOLE_MS

# What the client makes final ends like what is followed by a long pause.
FLUSH_PAUSE_MS = 1000
# The model emits a word within this time after it was spoken. Silence of this length after a word brings it out.
HELD_BACK_MS = TAIL_MS


class SegmentSearch(Protocol):
    """What a stream asks its search at the end of a segment."""

    def finish(self) -> Hypothesis:
        """The hypothesis if the segment ended here."""

    def alternatives(self, number: int) -> list[LikelyWords]:
        """The likeliest hypotheses if the segment ended here."""

    def again(self, segment: Any) -> Work[tuple[Hypothesis, SegmentSearch]]:
        """The hypothesis of a second pass over this segment, and whom to ask for more."""


@dataclass
class Stream:
    """The state of one stream outside the model's buffers: its steps, segment number, pending events.

    It is the recogniser's side of a `streamer.bridge.session.stream.Stream`: one channel of a session.
    """

    number: int
    lease: SlotLease
    options: StreamOptions
    results: ResultBuilder
    time_scale: TimeScale
    supply: Supply
    last_used: float
    detects: bool = False  # speech is detected in pieces that are shorter than a step
    watch: TurnWatch | None = None  # for a stream that asks for turns
    flushing: bool = False
    events: list[StreamEvent] = field(default_factory=list)
    _segment: int = 0
    _activity: ActivityReading | None = None  # of the running segment, if the model reports activity
    _found: Hypothesis = NO_WORDS  # after the last step, for a glance at the next one
    # What the segments need to know of speech. It depends on nothing but their audio, and on what options say.
    _speech: SpeechWatch = field(init=False)
    _told: SpeechWatch = field(init=False)  # what the events say: the same, unless pieces are heard as they arrive

    def __post_init__(self) -> None:
        frame, options = self.time_scale.frame_samples, self.options
        self._speech = self._told = SpeechWatch(frame, speaking=options.speaking)
        if self.detects:
            told = options.speaking if options.told is None else options.told
            tracker = ActivityTracker(ActivityRule(), speaking=told)
            self._told = SpeechWatch(frame, speaking=told, tracker=tracker)

    @property
    def speaking(self) -> bool:
        """Whether somebody was speaking when the last step was computed."""
        return self._speech.speaking

    @property
    def step_samples(self) -> int:
        """The length of one step of this stream in samples."""
        return self.time_scale.samples(self.options.step_ms)

    @property
    def piece_ms(self) -> int | None:
        """How long the pieces are in which speech is detected."""
        frame = self.time_scale.frame_samples
        return self.time_scale.ms(piece_samples(self.step_samples, frame)) if self.detects else None

    def next_pieces(self) -> list[Any]:
        """The pieces for the detector of speech that are due."""
        found: list[Any] = []
        while self.detects and (piece := self.supply.next_piece()) is not None:
            found.append(piece)
        return found

    def hear(self, probabilities: Sequence[float]) -> None:
        """Handle what was detected in these pieces."""
        self._tell(self._told.hear(probabilities))

    def next_step(self) -> Any | None:
        """The next step; None while there is no whole one, or if a flush needs no more."""
        complete = self.flushing and self.supply.base + self.supply.computed >= self.supply.received
        return None if complete and self._silent else self.supply.next_step(self.flushing)

    def next_glance(self) -> Any | None:
        """The beginning of the next step, if the turn would end in it. None if it has not arrived."""
        return self.supply.next_glance()

    def glanced(self, probabilities: Sequence[float], search: SegmentSearch) -> Handling[bool]:
        """Handle what was detected in the beginning of a step. True if the segment ended, as in `read`.

        It ends if the speaker was silent there. Otherwise nothing is known until the step is complete.
        """
        self.supply.glance = 0
        if max(probabilities) >= ActivityRule().close_below:
            return False
        quiet = (self._activity.quiet if self._activity else 0) + len(probabilities)
        frames = self._frames + len(probabilities)
        ending = self.options.endpoint.turn_end(self._found, frames, self.time_scale.frame_ms, quiet)
        yield from self._end_in(ending, frames, self._found, search)
        return True

    def read(self, found: Hypothesis, activity: ActivityReading | None, search: SegmentSearch) -> Handling[bool]:
        """Handle the results of a step. True if the segment ended, so the model must start afresh.

        `activity` is what is known after the step, None if the model does not report it.
        """
        self.supply.advance()
        self.supply.glance = 0
        quiet = self._follow(activity)
        if not self._opened:
            found = NO_WORDS  # in a segment in which nobody spoke, words come from music or keys
        if found.words:
            for watch in self._watches:
                self._tell(watch.find_words(self._sample(found.words[0].start)), watch)
        if self._in_tail:  # conclude() ends the segment, and the noise after the audio is no pause of the speaker
            return False
        rule, frame_ms, frames = self.options.endpoint, self.time_scale.frame_ms, self._frames
        paused_ms = paused(found, frames, quiet) * frame_ms
        turn_pause_ms: int | None = None
        if self.watch is not None:
            spoken = None if activity is None else activity.spoken
            spoken_ms = None if spoken is None else spoken * frame_ms
            turn_pause_ms = self.watch.pause_ms(found, paused_ms, lambda: search.finish().words, spoken_ms)
        ending = rule.segment_end(found, frames, frame_ms, quiet, turn_pause_ms)
        if ending is None:
            # What the second pass will say of a word is not known before the segment has ended.
            stable = 0 if self.options.second_pass else min(found.stable, rule.settled(found.words, frame_ms))
            partial = yield from self.results.partial(found, stable, self._position)
            if partial:
                self.events.append(partial)
            if self.watch:
                self._say_turn(self.watch.go_on(paused_ms))
            if turn_pause_ms is not None and rule.silence and activity is not None:
                step_frames = self.step_samples // self.time_scale.frame_samples
                self._await_end(found, frames_to_end(turn_pause_ms, paused_ms, frame_ms, step_frames))
            return False
        yield from self._end_in(ending, frames, found, search)
        return True

    def conclude(self, search: SegmentSearch) -> Handling[bool]:
        """Make everything final and answer the flush: all audio is computed. True if the model must start afresh."""
        self.flushing = False
        begun = self.supply.computed > 0
        # All words, including those that the model emitted during the tail: they were said before it.
        words = search.finish().words if begun and self._opened else ()
        _, words, search = yield from self._read_again(NO_WORDS, words, search)
        heard_ms = self.time_scale.ms(self.supply.received - self.supply.base) + FLUSH_PAUSE_MS
        yield from self._end_segment(self.supply.received, words, None, search, heard_ms=heard_ms)
        self.events.append(Flushed(self.time_scale.ms(self.supply.received)))
        return begun

    def take_events(self, *, ended: bool = False) -> list[StreamEvent]:
        """The events since the last call, then how much audio has arrived, then what must be computed again."""
        events, self.events = self.events, []
        events.append(Heard(self.supply.received, self.time_scale.ms(self.supply.received), self._due))
        again = self.supply.again
        if again is not None and not (ended and again.sample == self.supply.received):
            events.append(Again(again.sample, again.run, self.speaking))
        return events

    @property
    def _due(self) -> int | None:
        """The sample at which the turn would end before the next step does, if it has not arrived."""
        supply = self.supply
        end = supply.base + supply.computed + supply.glance
        return end if supply.glance and end > supply.received else None

    @property
    def _frames(self) -> int:
        return self.supply.computed // self.time_scale.frame_samples

    def _await_end(self, found: Hypothesis, frames: int) -> None:
        """Look at this many frames of the next step before it is complete: if they are silent, the turn ends there."""
        if self.supply.glances:
            self._found, self.supply.glance = found, frames * self.time_scale.frame_samples

    @property
    def _position(self) -> SegmentPosition:
        return self._position_after(self._frames)

    def _position_after(self, frames: int) -> SegmentPosition:
        # Frames of the tail are after the last sample, but no reported time may be.
        heard = min(self._sample(frames), self.supply.received)
        return SegmentPosition(
            self._segment,
            self.time_scale.ms(self.supply.base),
            self.time_scale.ms(heard),
            self.time_scale.frame_ms,
            self.options.step_ms,
        )

    @property
    def _in_tail(self) -> bool:
        """Whether all audio was computed, and noise after it: that happens only at a flush."""
        return self.supply.base + self.supply.computed > self.supply.received

    @property
    def _silent(self) -> bool:
        """Whether it has been quiet for so long that the model holds back no word."""
        return self._activity is not None and self._activity.quiet * self.time_scale.frame_ms >= HELD_BACK_MS

    @property
    def _opened(self) -> bool:
        return self._activity is None or self._activity.opened

    def _follow(self, activity: ActivityReading | None) -> int | None:
        """Follow the activity of a step. Returns the number of frames since the last activity."""
        self._activity = activity
        if activity is None:
            return None
        self._tell(self._speech.follow(activity), self._speech)
        return activity.quiet

    def _sample(self, frame: int) -> int:
        return self.supply.base + frame * self.time_scale.frame_samples

    def _end_in(self, ending: SegmentEnd, frames: int, found: Hypothesis, search: SegmentSearch) -> Handling[None]:
        """End the segment as the rule says after so many frames."""
        # Before a silence the last word is complete, even if the best hypothesis does not say so yet.
        last = search.finish().words if found.words or found.running else ()
        found, last, search = yield from self._read_again(found, last, search)
        words = last if ending.silence else _shared(found.words, last)
        cut = min(self._sample(ending.frame), self.supply.received)
        heard_ms = self.time_scale.ms(frames * self.time_scale.frame_samples) if ending.silence else None
        yield from self._end_segment(
            cut, words, ending.frame, search, heard_ms=heard_ms, pause=ending.silence, frames=frames
        )

    def _read_again(
        self, found: Hypothesis, words: tuple[HypothesisWord, ...], search: SegmentSearch
    ) -> Handling[tuple[Hypothesis, tuple[HypothesisWord, ...], SegmentSearch]]:
        """What is known of the segment after the second pass, if there is one for this stream.

        A segment without words is not worth it. And words that were shown do not go without a final.
        """
        if not (words and self.options.second_pass):
            return found, words, search
        seconds = self.supply.computed / self.time_scale.sample_rate
        again, second = yield Reread(seconds, search.again(self.supply.segment()))
        more = second.finish().words
        return (again, more, second) if more else (found, words, search)

    def _end_segment(
        self,
        cut: int,
        words: Sequence[HypothesisWord],
        frame: int | None,
        search: SegmentSearch,
        *,
        heard_ms: int | None,
        pause: bool = False,
        frames: int | None = None,
    ) -> Handling[None]:
        """Make the words before `frame` final, and begin a new segment at the sample `cut`.

        `heard_ms`: the speaker paused, and is silent until then; None if the segment has its greatest length.
        `pause`: the rule has found this pause, so it ends a turn. `frames`: of the segment, if more were looked at
        than computed.
        """
        position = self._position_after(self._frames if frames is None else frames)
        if self.options.second_pass:
            position = replace(position, step_ms=WHOLE_MS)
        kept, silence = _before(words, frame), heard_ms is not None
        ending = SegmentEnding(silence, self.time_scale.ms(cut - self.supply.base), heard_ms, tuple(words[len(kept) :]))
        unsaid = None if self.watch is None else self.watch.begin()
        if not silence:
            self._say_turn(unsaid)
        if kept:
            # Ask for more than the client wants, because those that differ only after the cut are merged.
            others = search.alternatives(3 * self.options.alternatives) if self.options.alternatives else []
            ranked = [(_before(other, frame), share) for other, share in others]
            final = yield from self.results.final(kept, ranked, position, ending)
            turn = self.watch.over if self.watch and pause else None
            self.events.append(final if turn is None else replace(final, turn=round(turn, 3)))
            if turn is not None:
                self._say_turn(TurnState.END, position)
            self._segment += 1
        else:
            self.results.cut(position, ending)
        if silence:
            over = frame is None or (pause and self.watch is not None)
            quiet = 0 if over else math.ceil(self.options.endpoint.quiet_ms / self.time_scale.frame_ms)
            for watch in self._watches:
                self._tell(watch.pause(self._sample(kept[-1].end) if kept else cut, quiet), watch)
        if cut > self.supply.base:
            told = self._told.speaking if self.detects else None
            self.events.append(Cut(cut, self.speaking, self.results.begins, self.results.context, told))
        self.supply.begin_at(cut)
        self._activity = None
        self._told.begin_segment()
        self._speech.begin_segment(cut)

    def _say_turn(self, state: TurnState | None, position: SegmentPosition | None = None) -> None:
        if self.watch and state and self.options.turns:
            probability = round(self.watch.over, 3)
            self.events.append(Turn(state.value, self._segment, probability, (position or self._position).audio_ms))

    @property
    def _watches(self) -> tuple[SpeechWatch, ...]:
        return (self._speech,) if self._told is self._speech else (self._speech, self._told)

    def _tell(self, changes: Sequence[SpeechChange], watch: SpeechWatch | None = None) -> None:
        """Report these changes, unless they are of the watch that the client does not hear of."""
        if not self.options.speech or (watch or self._told) is not self._told:
            return
        for change in changes:
            at_ms = self.time_scale.ms(min(change.sample, self.supply.received))
            self.events.append(Speech("start" if change.speaking else "end", at_ms))


def _before(words: Sequence[HypothesisWord], frame: int | None) -> tuple[HypothesisWord, ...]:
    return tuple(word for word in words if frame is None or word.start < frame)


def _shared(words: Sequence[HypothesisWord], judged: Sequence[HypothesisWord]) -> list[HypothesisWord]:
    """The words with their shares from the final hypothesis; 0.5 for words that are not in it."""
    shares = {(word.text, word.start): word.share for word in judged}
    return [replace(word, share=shares.get((word.text, word.start), 0.5)) for word in words]
