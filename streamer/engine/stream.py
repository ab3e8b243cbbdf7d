"""One stream inside the recogniser: the steps of its running segment, and the events that it still has to send."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamer.base.codes import FailureCode
from streamer.base.events import (
    Again,
    Cut,
    Flushed,
    Heard,
    ReadBy,
    Speech,
    SpeechState,
    StreamEvent,
    Turn,
    TurnState,
)
from streamer.base.limits import LANGUAGE, READER, WHOLE_MS
from streamer.engine.acoustics.activity import ActivityReading, ActivityRule, ActivityTracker, SpeechChange, SpeechWatch
from streamer.engine.acoustics.streaming_model import Floats
from streamer.engine.endpointing import SegmentEnd, TurnWatch, frames_to_end, paused
from streamer.engine.reader.growing import GrowingSegment
from streamer.engine.reader.reader_pass import HeardSegment, ReaderPass, words_as_read
from streamer.engine.reader.reading import ReadingOptions
from streamer.engine.search.search import NO_WORDS, Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.segment_audio import TAIL_MS, Supply, TimeScale, WholeSegments, piece_samples
from streamer.engine.slots import SlotLease
from streamer.engine.stream_events import StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.result_builder import ResultBuilder, SegmentEnding, SegmentPosition
from streamer.engine.text.sentence_marks import Window
from streamer.engine.waiting import LONGEST_WAIT_S, OutsideWork, Wait, WaitingWork, Work

if TYPE_CHECKING:
    from streamer.engine.text.punctuation_model import PunctuationModel


# When the client flushes, the words end as if a pause of this length followed.
FLUSH_PAUSE_MS = 1000
# The model emits a word within this time after it was spoken. So silence of this length makes it emit the last word.
HELD_BACK_MS = TAIL_MS


class SegmentSearch(Protocol):
    """The search of one stream, as the stream uses it at the end of a segment."""

    def finish(self) -> Hypothesis:
        """Return the hypothesis if the segment ended here."""

    def alternatives(self, number: int) -> list[LikelyWords]:
        """Return the likeliest hypotheses if the segment ended here."""

    def again(self, segment: NDArray[np.int16]) -> Work[tuple[Hypothesis, SegmentSearch]]:
        """Return the hypothesis of a second pass over this segment, and the search that has its alternatives."""


@dataclass(frozen=True)
class _Reading:
    """The words of a segment as one pass has read them."""

    hypothesis: Hypothesis
    words: tuple[HypothesisWord, ...] = ()
    alternatives: Sequence[LikelyWords] = ()
    read_by: ReadBy | None = None  # None if the stream has one pass
    language: str | None = None  # if the reader found it out


@dataclass
class Stream:
    """The state of one stream outside the model's buffers: its steps, the number of its segment, its pending events.

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
    watch: TurnWatch | None = None  # for a stream that wants turns
    reader_pass: ReaderPass | None = None  # for a stream whose segments a reader reads
    alone: ReadingOptions | None = None  # how it reads them, for a stream that has only its words
    growing: GrowingSegment | None = None  # for a stream whose running segment a reader reads as well
    flushing: bool = False  # the client wants everything so far to become final
    events: list[StreamEvent] = field(default_factory=list)
    _segment: int = 0
    _phones: list[Floats] = field(default_factory=list)  # of the running segment, for a reader pass
    _reader_s: float | None = None  # how long a reader was asked since the last answer
    _begun_at: float = field(init=False)  # when the running segment began
    _activity: ActivityReading | None = None  # in the running segment, if the model reports activity
    _last_hypothesis: Hypothesis = NO_WORDS  # after the last step, for a glance at the next step
    # The speech that segments depend on. It follows only from their audio and from the options.
    _segment_speech: SpeechWatch = field(init=False)
    # The speech that the events report. It is the same, unless speech is detected in pieces when they arrive.
    _event_speech: SpeechWatch = field(init=False)

    def __post_init__(self) -> None:
        self._begun_at = self.last_used
        frame, options = self.time_scale.frame_samples, self.options
        self._segment_speech = self._event_speech = SpeechWatch(frame, speaking=options.speaking)
        if self.detects:
            reported = options.speaking if options.told is None else options.told
            tracker = ActivityTracker(ActivityRule(frame_ms=self.time_scale.frame_ms), speaking=reported)
            self._event_speech = SpeechWatch(frame, speaking=reported, tracker=tracker)

    @property
    def speaking(self) -> bool:
        """Whether somebody was speaking when the last step was computed."""
        return self._segment_speech.speaking

    @property
    def step_samples(self) -> int:
        """The length of one step of this stream in samples."""
        return self.time_scale.samples(self.options.step_ms)

    @property
    def piece_ms(self) -> int | None:
        """The length of the pieces in which speech is detected; None if it is detected in steps."""
        frame = self.time_scale.frame_samples
        return self.time_scale.ms(piece_samples(self.step_samples, frame)) if self.detects else None

    def keep(self, phones: Floats) -> None:
        """Keep the log-probabilities of phones in the next step, in which a reader pass finds its words."""
        self._phones.append(phones.astype(np.float16))

    def next_pieces(self) -> list[Any]:
        """Return the pieces that the detector of speech must read now."""
        pieces: list[Any] = []
        while self.detects and (piece := self.supply.next_piece()) is not None:
            pieces.append(piece)
        return pieces

    def hear(self, probabilities: Sequence[float]) -> None:
        """Handle the probabilities of speech in the frames of pieces."""
        self._report_speech(self._event_speech.hear(probabilities))

    def next_step(self) -> Any | None:
        """Return the next step; None while it is not complete, or if a flush needs no more steps."""
        complete = self.flushing and self.supply.base + self.supply.computed >= self.supply.received
        return None if complete and self._silent else self.supply.next_step(self.flushing)

    def next_glance(self) -> Any | None:
        """Return the beginning of the next step if the turn may end in it; None if it has not arrived."""
        return self.supply.next_glance()

    def read_glance(self, probabilities: Sequence[float], search: SegmentSearch) -> Handling[bool]:
        """Handle the probabilities of speech in the beginning of a step. Return True if the segment ended, as `read`.

        It ends if the speaker was silent there. Otherwise the whole step decides.
        """
        self.supply.glance = 0
        if max(probabilities) >= ActivityRule().close_below:
            return False
        quiet = (self._activity.quiet if self._activity else 0) + len(probabilities)
        frames = self._frames + len(probabilities)
        ending = self.options.endpoint.turn_end(self._last_hypothesis, frames, self.time_scale.frame_ms, quiet)
        yield from self._end_in(ending, frames, self._last_hypothesis, search)
        return True

    def read(self, hypothesis: Hypothesis, activity: ActivityReading | None, search: SegmentSearch) -> Handling[bool]:
        """Handle the results of a step. Return True if the segment ended, so the model must start afresh.

        `activity` is the activity after the step; None if the model does not report it.
        """
        self.supply.advance()
        self.supply.glance = 0
        quiet = self._follow(activity)
        if not self._opened:
            hypothesis = NO_WORDS  # in a segment in which nobody spoke, words come from music or keys
        elif self.alone is not None:
            hypothesis = self._spoken(hypothesis)
        if hypothesis.words:
            for watch in self._watches:
                self._report_speech(watch.find_words(self._sample(hypothesis.words[0].start)), watch)
        if self._in_tail:  # the noise after the audio is no pause of the speaker; conclude() ends the segment
            return False
        rule, frame_ms, frames = self.options.endpoint, self.time_scale.frame_ms, self._frames
        paused_ms = paused(hypothesis, frames, quiet) * frame_ms
        turn_pause_ms: int | None = None
        if self.watch is not None:
            spoken = None if activity is None else activity.spoken
            spoken_ms = None if spoken is None else spoken * frame_ms
            turn_pause_ms = self.watch.pause_ms(hypothesis, paused_ms, lambda: search.finish().words, spoken_ms)
        ending = rule.segment_end(hypothesis, frames, frame_ms, quiet, turn_pause_ms)
        if ending is None:
            known = self._with_readings(hypothesis)
            stable = min(known.stable, rule.settled(known.words, frame_ms))
            shown = yield from self.results.partial(known, stable, self._position)
            if shown:
                self.events.append(shown)
            if self.watch:
                self._report_turn(self.watch.go_on(paused_ms))
            if turn_pause_ms is not None and rule.silence and activity is not None:
                step_frames = self.step_samples // self.time_scale.frame_samples
                self._await_end(hypothesis, frames_to_end(turn_pause_ms, paused_ms, frame_ms, step_frames))
            return False
        yield from self._end_in(ending, frames, hypothesis, search)
        return True

    def conclude(self, search: SegmentSearch) -> Handling[bool]:
        """Make everything final and answer the flush, after all audio is computed.

        Return True if the model must start afresh.
        """
        self.flushing = False
        begun = self.supply.computed > 0
        # All words, including those that the model emitted during the tail: they were said before it.
        words = search.finish().words if begun and self._opened else ()
        if self.alone is not None and self._opened:
            words = self._spoken(Hypothesis(words, 0)).words
        reading = yield from self._read_again(NO_WORDS, words, search, None)
        heard_ms = self.time_scale.ms(self.supply.received - self.supply.base) + FLUSH_PAUSE_MS
        yield from self._end_segment(self.supply.received, reading.words, None, reading, heard_ms=heard_ms)
        self.events.append(Flushed(self.time_scale.ms(self.supply.received)))
        return begun

    def take_events(self, *, ended: bool = False) -> list[StreamEvent]:
        """Return the events since the last call, then Heard, and then Again if the encoder must compute again."""
        events, self.events = self.events, []
        reader_ms = None if self._reader_s is None else round(1000 * self._reader_s)
        self._reader_s = None
        events.append(Heard(self.supply.received, self.time_scale.ms(self.supply.received), self._due, reader_ms))
        again = self.supply.again
        if again is not None and not (ended and again.sample == self.supply.received):
            events.append(Again(again.sample, again.run, self.speaking))
        return events

    @property
    def _due(self) -> int | None:
        """The sample before the end of the next step at which the turn may end; None if it has arrived."""
        supply = self.supply
        end = supply.base + supply.computed + supply.glance
        return end if supply.glance and end > supply.received else None

    @property
    def _frames(self) -> int:
        return self.supply.computed // self.time_scale.frame_samples

    def _await_end(self, hypothesis: Hypothesis, frames: int) -> None:
        """Look at this many frames of the next step before it is complete. If they are silent, the turn ends there."""
        if self.supply.glances:
            self._last_hypothesis, self.supply.glance = hypothesis, frames * self.time_scale.frame_samples

    @property
    def _position(self) -> SegmentPosition:
        return self._position_after(self._frames)

    def _position_after(self, frames: int) -> SegmentPosition:
        # Frames of the tail lie after the last sample, but no reported time may.
        end = min(self._sample(frames), self.supply.received)
        return SegmentPosition(
            self._segment,
            self.time_scale.ms(self.supply.base),
            self.time_scale.ms(end),
            self.time_scale.frame_ms,
            self.options.step_ms,
            self.options.search,
        )

    @property
    def _in_tail(self) -> bool:
        """Whether all audio was computed, and noise after it. This happens only at a flush."""
        return self.supply.base + self.supply.computed > self.supply.received

    @property
    def _silent(self) -> bool:
        """Whether it has been quiet for so long that the model has emitted all words."""
        return self._activity is not None and self._activity.quiet * self.time_scale.frame_ms >= HELD_BACK_MS

    @property
    def _opened(self) -> bool:
        return self._activity is None or self._activity.opened

    def _follow(self, activity: ActivityReading | None) -> int | None:
        """Follow the activity of a step. Return the number of frames since the last activity."""
        self._activity = activity
        if activity is None:
            return None
        self._report_speech(self._segment_speech.follow(activity), self._segment_speech)
        return activity.quiet

    def _sample(self, frame: int) -> int:
        return self.supply.base + frame * self.time_scale.frame_samples

    def _end_in(self, ending: SegmentEnd, frames: int, hypothesis: Hypothesis, search: SegmentSearch) -> Handling[None]:
        """End the segment where the rule ends it, after this many frames."""
        # Before a silence the last word is complete, even if the best hypothesis has it only as a beginning.
        last_words = search.finish().words if hypothesis.words or hypothesis.running else ()
        if self.alone is not None:
            last_words = last_words or hypothesis.words
        reading = yield from self._read_again(hypothesis, last_words, search, ending.frame)
        words = reading.words if ending.silence else _shared(reading.hypothesis.words, reading.words)
        cut = min(self._sample(ending.frame), self.supply.received)
        heard_ms = self.time_scale.ms(frames * self.time_scale.frame_samples) if ending.silence else None
        yield from self._end_segment(
            cut, words, ending.frame, reading, heard_ms=heard_ms, pause=ending.silence, frames=frames
        )

    def _read_again(
        self, hypothesis: Hypothesis, words: tuple[HypothesisWord, ...], search: SegmentSearch, frame: int | None
    ) -> Handling[_Reading]:
        """Return what the second pass read, if this stream has one; otherwise what the first one read.

        `frame` is where the segment will be cut; None if all of it ends.

        There is none for a segment without words. If there is no time for it, or it finds no words, the first ones
        remain, because words that were shown must get a final.
        """
        if not words:
            return _Reading(hypothesis)
        twice = self.options.second_pass
        # These are read before the second pass, which may use the same search.
        first = _Reading(hypothesis, words, self._alternatives(search), ReadBy.FIRST_PASS if twice else None)
        if not twice:
            return first
        seconds = self.supply.computed / self.time_scale.sample_rate
        ahead_s = seconds - (self.last_used - self._begun_at) if self.alone is None else LONGEST_WAIT_S
        reading = yield Reread(seconds, self._whole(first, search, frame), ahead_s)
        if reading is None and self.alone is not None:
            raise StreamError(FailureCode.FAILED, "the reader, which has the only words, did not answer in time")
        reading = reading or first
        if self.growing is None or not self._keeps:
            return reading
        kept = self.growing.final(_before(reading.words, frame))
        return replace(reading, words=kept, hypothesis=Hypothesis(kept, len(kept)))

    def _whole(self, first: _Reading, search: SegmentSearch, frame: int | None) -> OutsideWork[_Reading | None]:
        """Return what a reader reads in the segment, or else the second pass; None if neither finds words."""
        assert isinstance(self.supply, WholeSegments)
        segment = self.supply.segment()
        own_words = _before(first.words, frame)
        if self.alone is not None:
            return (yield from self._read_alone(segment, own_words, frame, self.alone))
        # A reader writes the names of marks as it likes, so dictated marks are left to the search.
        reader_pass = self.reader_pass if own_words and not self.options.dictation else None
        if reader_pass is not None and reader_pass.reader.present:
            # What comes after the cut may have the beginning of a word, of which a reader would make a word of its own.
            phones = np.concatenate(self._phones)[:frame].astype(np.float32)
            samples = segment[: None if frame is None else frame * self.time_scale.frame_samples]
            heard = HeardSegment(samples, phones, self.time_scale.frame_samples, own_words, self.options.hotwords)
            began_at = time.monotonic()
            try:
                words = yield from reader_pass.read(heard, self.options.prompt)
            finally:  # also if the limit for the second pass ends this
                self._reader_s = (self._reader_s or 0.0) + time.monotonic() - began_at
            if words:
                # What was believed is at least as likely as each of the others.
                best = max((share for _, share in first.alternatives), default=0.0)
                likely = max(math.prod(word.share for word in words), best / (1 + best))
                others = [(other, share * (1 - likely)) for other, share in first.alternatives]
                return _Reading(Hypothesis(words, len(words)), words, [(words, likely), *others], ReadBy.READER)
        again, second = yield from search.again(segment)
        words = second.finish().words
        return _Reading(again, words, self._alternatives(second), ReadBy.SECOND_PASS) if words else None

    def _read_alone(
        self,
        segment: NDArray[np.int16],
        pauses_between: tuple[HypothesisWord, ...],
        frame: int | None,
        options: ReadingOptions,
    ) -> OutsideWork[_Reading]:
        """Return what the reader reads in the segment, as it is."""
        assert self.reader_pass is not None
        samples = segment[: None if frame is None else frame * self.time_scale.frame_samples]
        nothing = np.zeros((0, 0), np.float32)
        heard = HeardSegment(samples, nothing, self.time_scale.frame_samples, pauses_between)
        began_at = time.monotonic()
        try:
            reading = yield from self.reader_pass.read_alone(heard, options)
        finally:  # also if the limit ends this
            self._reader_s = (self._reader_s or 0.0) + time.monotonic() - began_at
        words = words_as_read(reading, heard.frame_ms)
        chosen = options.language == LANGUAGE and len(self.reader_pass.reader.languages) > 1
        language = (reading.language or None) if chosen else None
        alternatives = [(words, 1.0)] if words else []
        return _Reading(Hypothesis(words, len(words)), words, alternatives, ReadBy.READER, language)

    @property
    def wants_reading(self) -> bool:
        """Whether the running segment should be read now, although it goes on."""
        if self.growing is None or not self._opened or self._in_tail:
            return False
        return self.growing.has_grown(self.supply.computed, self.time_scale.sample_rate)

    def read_growing(self, now: float) -> None:
        """Begin to read the running segment so far."""
        assert self.growing is not None
        assert isinstance(self.supply, WholeSegments)
        phones = np.concatenate(self._phones).astype(np.float32) if self._phones else np.zeros((0, 0), np.float32)
        words, frame = self._last_hypothesis.words, self.time_scale.frame_samples
        segment = HeardSegment(self.supply.segment(), phones, frame, words, self.options.hotwords)
        self.growing.read(segment, now)

    @property
    def _keeps(self) -> bool:
        """Whether words on which readings agree stay in the final: not where it has other marks than partials."""
        return self.alone is not None or not self.options.written

    def _with_readings(self, hypothesis: Hypothesis) -> Hypothesis:
        """Return what is known of the words of the running segment, and how many of them will not change."""
        self._last_hypothesis = hypothesis
        if self.growing is not None:
            known = self.growing.hypothesis(hypothesis)
            return known if self._keeps else replace(known, stable=0)
        if self.alone is not None:
            return NO_WORDS
        # Before the segment has ended, nobody knows which words the second pass will change.
        return replace(hypothesis, stable=0) if self.options.second_pass else hypothesis

    def _spoken(self, hypothesis: Hypothesis) -> Hypothesis:
        """Return the hypothesis, or if it has no words, one with a word at the end of what was spoken.

        The first pass may have no words for another language. The word only says where the speaker has paused.
        """
        activity, frames = self._activity, self._frames
        if hypothesis.words or activity is None:
            return hypothesis
        end = max(1, frames - activity.quiet)
        return Hypothesis((HypothesisWord("", end - 1, end, 0.0),), 0)

    def _alternatives(self, search: SegmentSearch) -> list[LikelyWords]:
        """Return more alternatives than the client wants, because those that differ only after the cut are merged."""
        return search.alternatives(3 * self.options.alternatives) if self.options.alternatives else []

    def _end_segment(
        self,
        cut: int,
        words: Sequence[HypothesisWord],
        frame: int | None,
        reading: _Reading,
        *,
        heard_ms: int | None,
        pause: bool = False,
        frames: int | None = None,
    ) -> Handling[None]:
        """Make the words before `frame` final, and begin a new segment at the sample `cut`. `reading` has the words.

        `heard_ms` is the time until which the speaker is silent after a pause; None if the segment ended at its
        greatest length. `pause`: the rule has found this pause, so it ends a turn. `frames` is the number of frames of
        the segment, if it is more than were computed.
        """
        position = self._position_after(self._frames if frames is None else frames)
        if reading.read_by is ReadBy.SECOND_PASS:
            position = replace(position, step_ms=WHOLE_MS)
        elif reading.read_by is ReadBy.READER:
            position = replace(position, search=READER)
        own_words, silence = _before(words, frame), heard_ms is not None
        ending = SegmentEnding(
            silence, self.time_scale.ms(cut - self.supply.base), heard_ms, tuple(words[len(own_words) :])
        )
        turn_state = None if self.watch is None else self.watch.begin()
        if not silence:
            self._report_turn(turn_state)
        if own_words:
            alternatives = [(_before(other, frame), share) for other, share in reading.alternatives]
            final = yield from self.results.final(own_words, alternatives, position, ending)
            turn = self.watch.over if self.watch and pause else None
            if final is not None:
                rounded = None if turn is None else round(turn, 3)
                self.events.append(replace(final, turn=rounded, read_by=reading.read_by, language=reading.language))
            if turn is not None:
                self._report_turn(TurnState.END, position)
            self._segment += final is not None
        else:
            self.results.cut(position, ending)
        if silence:
            over = frame is None or (pause and self.watch is not None)
            quiet = 0 if over else math.ceil(self.options.endpoint.quiet_ms / self.time_scale.frame_ms)
            for watch in self._watches:
                self._report_speech(watch.pause(self._sample(own_words[-1].end) if own_words else cut, quiet), watch)
        if cut > self.supply.base:
            reported = self._event_speech.speaking if self.detects else None
            self.events.append(Cut(cut, self.speaking, self.results.begins, self.results.context, reported))
        self.supply.begin_at(cut)
        self._phones.clear()
        if self.growing is not None:
            self.growing.begin()
        self._begun_at = self.last_used
        self._activity = None
        self._event_speech.begin_segment()
        self._segment_speech.begin_segment(cut)

    def _report_turn(self, state: TurnState | None, position: SegmentPosition | None = None) -> None:
        if self.watch and state and self.options.turns:
            probability = round(self.watch.over, 3)
            self.events.append(Turn(state, self._segment, probability, (position or self._position).audio_ms))

    @property
    def _watches(self) -> tuple[SpeechWatch, ...]:
        return (
            (self._segment_speech,)
            if self._event_speech is self._segment_speech
            else (self._segment_speech, self._event_speech)
        )

    def _report_speech(self, changes: Sequence[SpeechChange], watch: SpeechWatch | None = None) -> None:
        """Report these changes to the client, unless they come from the watch for segments."""
        if not self.options.speech or (watch or self._event_speech) is not self._event_speech:
            return
        for change in changes:
            at_ms = self.time_scale.ms(min(change.sample, self.supply.received))
            self.events.append(Speech(SpeechState.START if change.speaking else SpeechState.END, at_ms))


def _before(words: Sequence[HypothesisWord], frame: int | None) -> tuple[HypothesisWord, ...]:
    return tuple(word for word in words if frame is None or word.start < frame)


def _shared(words: Sequence[HypothesisWord], judged: Sequence[HypothesisWord]) -> list[HypothesisWord]:
    """Return the words with their shares in the final hypothesis; 0.5 for words that it does not have."""
    shares = {(word.text, word.start): word.share for word in judged}
    return [replace(word, share=shares.get((word.text, word.start), 0.5)) for word in words]


# Lets streams handle the results of a step, and gives them the second passes and marks that they request for it.

T = TypeVar("T")
_REREAD = 0.015  # the approximate time in seconds to read one second of a segment again


@dataclass(frozen=True)
class Reread:
    """The request for the second pass of a segment with this many seconds.

    Its answer is the result of `work`; None if there is no time for that.
    """

    seconds: float
    work: OutsideWork[Any]
    ahead_s: float = 0.0  # how much faster the segment came than it was spoken


Handling = Generator[Sequence[Window] | Reread, Any, T]
"""The work of a stream after a step. It requests at most one second pass, and then at most once marks for windows."""


class Handler(Protocol):
    """A stream that handles a step."""

    number: int
    lease: SlotLease
    options: StreamOptions


class StepHandling:
    """Runs the handlings of streams, and answers their requests."""

    def __init__(
        self,
        waiting: WaitingWork,
        punctuation: PunctuationModel | None,
        start_afresh: Callable[[Sequence[int]], None],
    ) -> None:
        """`start_afresh` is called with the slots of streams whose handling returns True."""
        self._waiting, self._punctuation, self._start_afresh = waiting, punctuation, start_afresh

    def run(self, handlings: Iterable[tuple[Handler, Handling[bool]]]) -> list[tuple[Handler, Exception]]:
        """Let these streams handle a step. A stream that requests a second pass goes on after it, or after its limit.

        The punctuation model is called once for all other streams. Return the streams whose handling failed, each with
        its exception: they cannot go on, and all others do.
        """
        return self._go_on([(stream, handling, None) for stream, handling in handlings])

    def _go_on(self, answered: Iterable[tuple[Handler, Handling[bool], Any]]) -> list[tuple[Handler, Exception]]:
        """Go on with these answers to the requests of the streams. Return those that failed."""
        with_windows: list[tuple[Handler, Handling[bool], Sequence[Window]]] = []
        ended_slots: list[int] = []
        failed: list[tuple[Handler, Exception]] = []
        for stream, handling, answer in answered:
            try:
                request = handling.send(answer)
            except StopIteration as end:
                ended_slots += [stream.lease.slot] if end.value else []
                continue
            except Exception as error:
                failed.append((stream, error))
                continue
            if isinstance(request, Reread):
                work, estimate_s = self._second_pass(stream, handling, request), _REREAD * request.seconds
                without = partial(self._go_on_alone, stream, handling, None)
                caller = stream.options.caller
                self._waiting.add(stream.number, Wait.SECOND_PASS, work, caller, estimate_s, without, request.ahead_s)
            else:
                with_windows.append((stream, handling, request))
        self._start_afresh(ended_slots)
        if with_windows and self._punctuation is not None:
            try:
                marks = iter(self._punctuation.read([window for _, _, windows in with_windows for window in windows]))
            except Exception as error:
                return failed + [(stream, error) for stream, _, _ in with_windows]
            failed += self._go_on(
                [(stream, handling, [next(marks) for _ in request]) for stream, handling, request in with_windows]
            )
        return failed

    def _go_on_alone(self, stream: Handler, handling: Handling[bool], answer: object) -> None:
        """Go on with this answer to the request of one stream. Raise its exception if it fails."""
        for _, error in self._go_on([(stream, handling, answer)]):
            raise error

    def _second_pass(self, stream: Handler, handling: Handling[bool], request: Reread) -> OutsideWork[None]:
        try:
            result = yield from request.work
            self._go_on_alone(stream, handling, result)
        except Exception as error:
            raise StreamError(FailureCode.FAILED, f"a segment could not be read again: {error}") from error
