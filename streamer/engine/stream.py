"""One stream inside the recogniser: the audio of its running segment and what has been said about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streamer.engine.endpoint import EndpointRule
from streamer.engine.events import Cut, Event, Final, Flushed, Heard, Partial, Speech, SpokenWord
from streamer.engine.options import StreamOptions
from streamer.engine.search import Hypothesis, Word
from streamer.engine.slots import Lease

BYTES_PER_SAMPLE = 2
# After the last sample the model still owes what it was about to emit: so much faint noise pushes it out.
TAIL_MS = 320
# Faint noise, not zeros: models are poor at exact silence. Always the same, so that a replay gives the same words.
_TAIL = np.random.default_rng(0).integers(-4, 5, 16_000, dtype=np.int16)


NOTHING = Hypothesis((), 0)

Finish = Callable[[], Hypothesis]
"""Gives the hypothesis of a stream if nothing follows."""


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
    rule: EndpointRule
    clock: Clock
    last_used: float
    received: int = 0
    flushing: bool = False
    events: list[Event] = field(default_factory=list)
    _audio: bytearray = field(default_factory=bytearray)  # of the running segment
    _base: int = 0  # the sample at which the running segment starts
    _computed: int = 0  # samples of the running segment that the model has read, the tail's included
    _segment: int = 0
    _hypothesis: Hypothesis = NOTHING
    _shown: str = ""
    _speaking: bool = False

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

    def read(self, hypothesis: Hypothesis, finish: Finish) -> bool:
        """Note what the search made of the step; True where the segment ended and the model must start afresh."""
        self._computed += self.step_samples
        self._hypothesis = hypothesis
        words = hypothesis.words
        if words and not self._speaking:
            self._speaking = True
            self._say_speech("start", self._sample(words[0].start))
        ending = self.rule.ending(hypothesis, self._computed // self.clock.frame_samples, self.clock.frame_ms)
        if ending is None:
            self._show()
            return False
        # Behind a silence the last word is whole, whether the best hypothesis has said so yet or not.
        words = finish().words if ending.silence else words
        kept = [word for word in words if word.start < ending.frame]
        self._end_segment(min(self._sample(ending.frame), self.received), kept, silence=ending.silence)
        return True

    def conclude(self, finish: Finish) -> None:
        """Everything received has been read: make it final and answer the flush. The model must start afresh."""
        self.flushing = False
        # All words, also those that the model came out with in the tail: they were said before it.
        self._end_segment(self.received, finish().words, silence=True)
        self.events.append(Flushed(self.clock.ms(self.received)))

    def take_events(self) -> list[Event]:
        """The events since the last call, and how much has been heard."""
        events, self.events = self.events, []
        return [*events, Heard(self.received, self.clock.ms(self.received))]

    def _samples(self, start: int, end: int) -> NDArray[np.int16]:
        window = self._audio[start * BYTES_PER_SAMPLE : end * BYTES_PER_SAMPLE]
        return np.frombuffer(window, dtype=np.int16)

    def _sample(self, frame: int) -> int:
        return self._base + frame * self.clock.frame_samples

    def _at_ms(self, frame: int) -> int:
        # Frames of the tail lie behind the last sample: no time does.
        return self.clock.ms(min(self._sample(frame), self.received))

    def _show(self) -> None:
        words = self._hypothesis.words
        text = _text(words)
        if not words or text == self._shown or not self.options.partials:
            return
        stable = min(self._hypothesis.stable, self.rule.settled(words, self.clock.frame_ms))
        audio = min(self._base + self._computed, self.received)
        self.events.append(
            Partial(
                self._segment,
                text,
                len(_text(words[:stable])),
                self._at_ms(words[0].start),
                self.clock.ms(audio),
            )
        )
        self._shown = text

    def _end_segment(self, cut: int, words: Sequence[Word], *, silence: bool) -> None:
        if words:
            self.events.append(self._final(words))
            self._segment += 1
        if silence and self._speaking:
            self._speaking = False
            self._say_speech("end", self._sample(words[-1].end) if words else cut)
        if cut > self._base:
            self.events.append(Cut(cut))
        del self._audio[: (cut - self._base) * BYTES_PER_SAMPLE]
        self._base, self._computed = cut, 0
        self._hypothesis, self._shown = NOTHING, ""

    def _final(self, words: Sequence[Word]) -> Final:
        spoken = tuple(
            SpokenWord(w.text, self._at_ms(w.start), self._at_ms(w.end), round(w.confidence, 3)) for w in words
        )
        confidence = round(sum(word.confidence for word in words) / len(words), 3)
        return Final(
            self._segment,
            _text(words),
            spoken[0].start_ms,
            spoken[-1].end_ms,
            self.clock.ms(min(self._base + self._computed, self.received)),
            confidence,
            spoken if self.options.words else None,
        )

    def _say_speech(self, state: str, sample: int) -> None:
        if self.options.speech:
            self.events.append(Speech(state, self.clock.ms(min(sample, self.received))))


def _text(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words)
