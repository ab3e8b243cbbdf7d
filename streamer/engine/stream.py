"""One stream inside the recogniser: the audio of its running segment and what has been said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamer.engine.events import Cut, Event, Flushed, Heard, Speech
from streamer.engine.models.activity import ActivityRule, Track
from streamer.engine.options import StreamOptions
from streamer.engine.search.search import Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.slots import Lease
from streamer.engine.text.transcriber import SegmentPosition, Transcriber

BYTES_PER_SAMPLE = 2
# After the last sample the model still owes what it was about to emit: so much faint noise pushes it out.
TAIL_MS = 320
# Faint noise, not zeros: models are poor at exact silence. Always the same, so that a replay gives the same words.
_TAIL = np.random.default_rng(0).integers(-4, 5, 16_000, dtype=np.int16)


NOTHING = Hypothesis((), 0)


class Ends(Protocol):
    """The search of one stream where a segment ends."""

    def finish(self) -> Hypothesis:
        """The hypothesis if nothing follows."""

    def alternatives(self, number: int) -> list[LikelyWords]:
        """The likeliest hypotheses if nothing follows."""


@dataclass(frozen=True)
class Clock:
    """Translates between samples, emission frames and milliseconds."""

    sample_rate: int
    frame_samples: int

    @property
    def frame_ms(self) -> float:
        return 1000 * self.frame_samples / self.sample_rate

    def samples(self, milliseconds: int) -> int:
        return milliseconds * self.sample_rate // 1000

    def ms(self, samples: int) -> int:
        return samples * 1000 // self.sample_rate


@dataclass
class Stream:
    """The state of one stream that is not in the model's buffers: samples since the last cut, segment, events owed."""

    lease: Lease
    options: StreamOptions
    scribe: Transcriber
    clock: Clock
    last_used: float
    received: int = 0
    flushing: bool = False
    events: list[Event] = field(default_factory=list)
    _audio: bytearray = field(default_factory=bytearray)  # of the running segment
    _base: int = 0  # the sample at which the running segment starts
    _computed: int = 0  # samples of the running segment that the model has read, the tail's included
    _segment: int = 0
    _track: Track | None = None  # of the running segment, if the model tells activity
    speaking: bool = False  # what was said last, and whether it was so at some time in the segment
    _spoke: bool = False

    @property
    def step_samples(self) -> int:
        """The samples of one step of this stream."""
        return self.clock.samples(self.options.step_ms)

    def hear(self, samples: NDArray[np.int16]) -> None:
        """Take in audio."""
        self._audio += samples.tobytes()
        self.received += len(samples)

    def next_step(self) -> NDArray[np.int16] | None:
        """The samples of the step that is due, None while there are too few."""
        end = self._computed + self.step_samples
        held = len(self._audio) // BYTES_PER_SAMPLE
        if end <= held:
            return self._samples(self._computed, end)
        if self.flushing and held and self._computed < held + self.clock.samples(TAIL_MS):
            rest = self._samples(self._computed, held)
            tail: NDArray[np.int16] = np.resize(_TAIL, self.step_samples - len(rest))
            return np.concatenate([rest, tail])
        return None

    def read(self, found: Hypothesis, activity: Sequence[float] | None, ends: Ends) -> bool:
        """Note what the step gave; True where the segment ended and the model must start afresh.

        `activity` is the probability of speech in each frame, None where the model does not tell.
        """
        self._computed += self.step_samples
        quiet = self._follow(activity)
        if not self._opened:
            found = NOTHING  # words of a segment in which nobody spoke are those of music or keys
        if found.words and not self._spoke:
            self._say_speech(True, self._sample(found.words[0].start))
        rule, frame_ms = self.options.endpoint, self.clock.frame_ms
        ending = rule.ending(found, self._computed // self.clock.frame_samples, frame_ms, quiet)
        if ending is None:
            stable = min(found.stable, rule.settled(found.words, frame_ms))
            partial = self.scribe.partial(found, stable, self._place)
            if partial:
                self.events.append(partial)
            return False
        # Behind a silence the last word is whole, whether the best hypothesis has said so yet or not.
        last = ends.finish().words if found.words or found.running else ()
        words = last if ending.silence else _shared(found.words, last)
        cut = min(self._sample(ending.frame), self.received)
        self._end_segment(cut, words, ending.frame, ends, silence=ending.silence)
        return True

    def conclude(self, ends: Ends) -> None:
        """Everything received has been read: make it final and answer the flush. The model must start afresh."""
        self.flushing = False
        # All words, also those that the model came out with in the tail: they were said before it.
        words = ends.finish().words if self._opened else ()
        self._end_segment(self.received, words, None, ends, silence=True)
        self.events.append(Flushed(self.clock.ms(self.received)))

    def take_events(self) -> list[Event]:
        """The events since the last call, and how much has been heard."""
        events, self.events = self.events, []
        return [*events, Heard(self.received, self.clock.ms(self.received))]

    @property
    def _place(self) -> SegmentPosition:
        # Frames of the tail lie behind the last sample: no time does.
        heard = min(self._base + self._computed, self.received)
        return SegmentPosition(self._segment, self.clock.ms(self._base), self.clock.ms(heard), self.clock.frame_ms)

    @property
    def _opened(self) -> bool:
        return self._track is None or self._track.opened

    def _follow(self, activity: Sequence[float] | None) -> int | None:
        """Read what the model says of speech; returns for how many frames there was none."""
        if activity is None:
            return None
        if self._track is None:
            self._track = Track(ActivityRule(), speaking=self.speaking)
            self._spoke = self.speaking
        for change in self._track.read(activity):
            self._say_speech(change.speaking, self._sample(change.frame))
        return self._track.quiet

    def _samples(self, start: int, end: int) -> NDArray[np.int16]:
        window = self._audio[start * BYTES_PER_SAMPLE : end * BYTES_PER_SAMPLE]
        return np.frombuffer(window, dtype=np.int16)

    def _sample(self, frame: int) -> int:
        return self._base + frame * self.clock.frame_samples

    def _end_segment(
        self, cut: int, words: Sequence[HypothesisWord], frame: int | None, ends: Ends, *, silence: bool
    ) -> None:
        """Make the words before `frame` final, and start again at the sample `cut`."""
        kept = _before(words, frame)
        if kept:
            # More than are wanted: what differs only behind the cut is one.
            others = ends.alternatives(3 * self.options.alternatives) if self.options.alternatives else []
            ranked = [(_before(other, frame), share) for other, share in others]
            self.events.append(self.scribe.final(kept, ranked, self._place, pause=silence))
            self._segment += 1
        else:
            self.scribe.cut(pause=silence)
        if silence and self.speaking:
            self._pause(self._sample(kept[-1].end) if kept else cut, over=frame is None)
        if cut > self._base:
            self.events.append(Cut(cut, self.speaking, self.scribe.begins))
        del self._audio[: (cut - self._base) * BYTES_PER_SAMPLE]
        self._base, self._computed = cut, 0
        self._track, self._spoke = None, self.speaking

    def _pause(self, sample: int, *, over: bool) -> None:
        """A segment ended in silence: so does speech, unless it is heard that somebody speaks on without a word."""
        if self._track is None or not self._track.speaking:
            self._say_speech(False, sample)
        elif over or self._track.quiet * self.clock.frame_ms >= self.options.endpoint.quiet_ms:
            change = self._track.end()
            self._say_speech(False, self._sample(change.frame) if change else sample)

    def _say_speech(self, speaking: bool, sample: int) -> None:
        if speaking == self.speaking:
            return
        self.speaking = speaking
        self._spoke = self._spoke or speaking
        if self.options.speech:
            self.events.append(Speech("start" if speaking else "end", self.clock.ms(min(sample, self.received))))


def _before(words: Sequence[HypothesisWord], frame: int | None) -> tuple[HypothesisWord, ...]:
    return tuple(word for word in words if frame is None or word.start < frame)


def _shared(words: Sequence[HypothesisWord], judged: Sequence[HypothesisWord]) -> list[HypothesisWord]:
    """Words with the shares that they have in a judgement of the whole beam; half of it where it has others."""
    shares = {(word.text, word.start): word.share for word in judged}
    return [replace(word, share=shares.get((word.text, word.start), 0.5)) for word in words]
