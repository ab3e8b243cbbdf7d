"""Converts the times of a sequence to those of the session. Pure.

A sequence counts samples, times and segments from its own start. If it follows a lost sequence, it starts at the last
cut of that one.
"""

from __future__ import annotations

from dataclasses import replace

from streamer.audio.sample_converter import SAMPLE_RATE
from streamer.wire.events import Final, HeadEvent, Partial, Speech, Turn, Word


class SequenceClock:
    """The sample at which the present sequence began, and the one up to which it has heard."""

    def __init__(self) -> None:
        self.cut = 0  # the audio from this sample on may be needed again
        self.heard = 0  # samples that a sequence has acknowledged, present or former
        self.replayed = 0  # the sample up to which the present sequence has heard
        self._offset = 0  # the sample where the present sequence began
        self._first = 0  # the number of its first segment
        self._ended_ms = 0  # the end of the last final

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

    def speech(self, speech: Speech) -> Speech:
        """Convert to the session's time."""
        if not self._offset:
            return speech
        return replace(speech, at_ms=self._at(speech.at_ms))

    def turn(self, turn: Turn) -> Turn:
        """Convert to the session's times."""
        if not self._offset:
            return turn
        return replace(turn, segment=self._first + turn.segment, audio_ms=self._at(turn.audio_ms))

    def head(self, event: HeadEvent) -> HeadEvent:
        """Convert to the session's time."""
        return replace(event, at_ms=_ms(self._offset) + event.at_ms) if self._offset else event

    def partial(self, partial: Partial) -> Partial:
        """Convert to the session's times."""
        if self._has_session_times(partial):
            return partial
        return replace(
            partial,
            segment=self._first + partial.segment,
            start_ms=self._word_at(partial.start_ms),
            audio_ms=self._at(partial.audio_ms),
            words=self._words(partial.words),
        )

    def final(self, final: Final) -> Final:
        """Convert to the session's times. No later word will begin before the end of this final."""
        if not self._has_session_times(final):
            final = replace(
                final,
                segment=self._first + final.segment,
                start_ms=self._word_at(final.start_ms),
                end_ms=self._word_at(final.end_ms),
                audio_ms=self._at(final.audio_ms),
                words=self._words(final.words),
            )
        self._ended_ms = max(self._ended_ms, final.end_ms)
        return final

    def _has_session_times(self, result: Partial | Final) -> bool:
        """Return whether the times of a result already are those of the session."""
        if self._offset or result.start_ms < self._ended_ms:
            return False
        return all(word.start_ms >= self._ended_ms for word in result.words or ())

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

    def _words(self, words: tuple[Word, ...] | None) -> tuple[Word, ...] | None:
        if words is None:
            return None
        return tuple(
            replace(word, start_ms=self._word_at(word.start_ms), end_ms=self._word_at(word.end_ms)) for word in words
        )


def _ms(samples: int) -> int:
    return samples * 1000 // SAMPLE_RATE
