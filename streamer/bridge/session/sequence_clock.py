"""The times of one stream on the clock of its session, whichever sequence counts them at present. Pure.

A sequence counts samples, times and segments from its own beginning, which is the cut where the one before it was lost.
"""

from __future__ import annotations

from dataclasses import replace

from streamer.audio.sample_converter import SAMPLE_RATE
from streamer.wire.events import Final, Partial, Speech, Word


class SequenceClock:
    """Where the present sequence began, and how far it is."""

    def __init__(self) -> None:
        self.cut = 0  # the sample from which on audio may be needed again
        self.heard = 0  # samples that were acknowledged, by whichever sequence
        self.replayed = 0  # and by the present one
        self._offset = 0  # where the present sequence began
        self._first = 0  # its first segment
        self._ended_ms = 0  # the end of the last word of a final

    @property
    def cut_ms(self) -> int:
        """The time of the cut."""
        return _ms(self.cut)

    @property
    def replayed_ms(self) -> int:
        """How far the present sequence is."""
        return _ms(self.replayed)

    def restart(self, segment: int) -> None:
        """Another sequence begins at the cut, with this segment."""
        self._offset = self.replayed = self.cut
        self._first = segment

    def hear(self, sample: int) -> None:
        """The present sequence has heard so much."""
        self.replayed = self._offset + sample
        self.heard = max(self.heard, self.replayed)

    def end_segment(self, sample: int) -> None:
        """The present sequence has cut there."""
        self.cut = self._offset + sample

    def speech(self, speech: Speech) -> Speech:
        """The same at the session's time."""
        if not self._offset:
            return speech
        return replace(speech, at_ms=self._at(speech.at_ms))

    def partial(self, partial: Partial) -> Partial:
        """The same with the session's times."""
        if self._tells(partial):
            return partial
        return replace(
            partial,
            segment=self._first + partial.segment,
            start_ms=self._word_at(partial.start_ms),
            audio_ms=self._at(partial.audio_ms),
            words=self._words(partial.words),
        )

    def final(self, final: Final) -> Final:
        """The same with the session's times; no later word is before its end."""
        if not self._tells(final):
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

    def _tells(self, result: Partial | Final) -> bool:
        """Whether its times are those of the session as they are."""
        if self._offset or result.start_ms < self._ended_ms:
            return False
        return all(word.start_ms >= self._ended_ms for word in result.words or ())

    def _at(self, milliseconds: int) -> int:
        """A time of the present sequence on the session's clock, to the millisecond that a single one would tell."""
        # Samples are rounded down to milliseconds, which is not the same from another zero. Times count from the start
        # of their segment, but for what ends with the audio.
        if milliseconds == _ms(self.replayed - self._offset):
            return _ms(self.replayed)
        return milliseconds + _ms(self.cut) - _ms(self.cut - self._offset)

    def _word_at(self, milliseconds: int) -> int:
        # A model knows only its own finals: that no time is before the last of them is seen to here.
        return max(self._at(milliseconds), self._ended_ms)

    def _words(self, words: tuple[Word, ...] | None) -> tuple[Word, ...] | None:
        if words is None:
            return None
        return tuple(
            replace(word, start_ms=self._word_at(word.start_ms), end_ms=self._word_at(word.end_ms)) for word in words
        )


def _ms(samples: int) -> int:
    return samples * 1000 // SAMPLE_RATE
