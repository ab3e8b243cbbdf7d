"""Decides where a segment ends, from the words so far and from speech activity. Times are emission frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamer.engine.search.search import Hypothesis, HypothesisWord
from streamer.limits import AFTER_TEXT_MS, EAGERNESS, LONGEST_PAUSE_MS, LONGEST_SEGMENT_MS, WITHOUT_TEXT_MS


@dataclass(frozen=True)
class SegmentEnd:
    """The end of a segment. Words that start at `frame` or later belong to the next segment.

    `silence`: the segment ends because the speaker paused.
    """

    frame: int
    silence: bool


@dataclass(frozen=True)
class EndpointRule:
    """How long a silence must be to end a segment, after text and without text, and how long a segment may be.

    A silence has neither new words nor activity. If there is activity but no new word for a long time, the activity is
    noise, and the words alone decide. Without `silence`, only the maximum length ends a segment.

    With `turn`, the words so far decide how long the silence after them must be (`turn/turn_rule.py`).
    """

    after_text_ms: int = AFTER_TEXT_MS
    without_text_ms: int = WITHOUT_TEXT_MS
    longest_ms: int = LONGEST_SEGMENT_MS
    silence: bool = True
    turn: bool = False
    eagerness: str = EAGERNESS
    longest_pause_ms: int = LONGEST_PAUSE_MS
    # A word that has just begun may not have been emitted yet, so a cut in silence lies this far back.
    look_back_ms: int = 320
    # A segment of maximum length is cut at the widest gap between words in this stretch before its end.
    gap_stretch_ms: int = 5000
    # A silence must also be at least this long without activity.
    quiet_ms: int = 400
    # With activity but no words, a silence must be this much longer.
    patience_ms: int = 2000

    def __post_init__(self) -> None:
        if min(self.after_text_ms, self.without_text_ms) <= self.look_back_ms:
            raise ValueError(f"a silence must be longer than the look-back of {self.look_back_ms} ms")
        if self.longest_ms <= self.gap_stretch_ms:
            raise ValueError(f"the longest segment must be longer than {self.gap_stretch_ms} ms")

    def segment_end(
        self,
        hypothesis: Hypothesis,
        frames: int,
        frame_ms: float,
        quiet: int | None = None,
        turn_pause_ms: int | None = None,
    ) -> SegmentEnd | None:
        """Return where a segment of this many frames with this hypothesis ends; None if it goes on.

        `quiet` counts the frames since the last frame with activity; None if the model does not report activity.
        `turn_pause_ms` is the pause that ends the turn after these words, for a stream that wants turns.
        """
        words, words_end = hypothesis.words, end_of_words(hypothesis)
        if self.silence and turn_pause_ms is not None and paused(hypothesis, frames, quiet) * frame_ms >= turn_pause_ms:
            return self.turn_end(hypothesis, frames, frame_ms, quiet)
        if self.silence and self._silent((frames - words_end) * frame_ms, bool(words), quiet, frame_ms):
            return SegmentEnd(self._in_silence(frames, words_end, quiet, frame_ms), silence=True)
        if frames * frame_ms >= self.longest_ms:
            return SegmentEnd(self._widest_gap(hypothesis, frames, quiet, frame_ms), silence=False)
        return None

    def turn_end(self, hypothesis: Hypothesis, frames: int, frame_ms: float, quiet: int | None) -> SegmentEnd:
        """Return the end of a segment of this many frames if the present pause ends the turn."""
        return SegmentEnd(self._in_pause(frames, end_of_words(hypothesis), quiet, frame_ms), silence=True)

    def settled(self, words: Sequence[HypothesisWord], frame_ms: float) -> int:
        """Return how many of the words stay in this segment wherever it is cut. The others may move to the next."""
        limit = (self.longest_ms - self.gap_stretch_ms) / frame_ms
        return sum(word.start <= limit for word in words)

    def _silent(self, wordless_ms: float, words: bool, quiet: int | None, frame_ms: float) -> bool:
        after_text_ms = self.longest_pause_ms if self.turn else self.after_text_ms
        needed = after_text_ms if words else self.without_text_ms
        if wordless_ms < needed:
            return False
        return quiet is None or self._quiet(quiet, frame_ms) or wordless_ms >= needed + self.patience_ms

    def _in_pause(self, frames: int, words_end: int, quiet: int | None, frame_ms: float) -> int:
        """Return the middle of a pause that ends a turn. It may be shorter than a silence."""
        silent = frames - words_end if quiet is None else min(quiet, frames - words_end)
        return frames - min(silent // 2, 2 * round(self.look_back_ms / frame_ms))

    def _in_silence(self, frames: int, words_end: int, quiet: int | None, frame_ms: float) -> int:
        look_back = round(self.look_back_ms / frame_ms)
        if quiet is None or not self._quiet(quiet, frame_ms):
            return max(frames - look_back, 0)
        # The middle of the silence is furthest from both words. But audio after the cut is computed again, so the cut
        # does not lie far back.
        furthest = 2 * look_back if words_end else look_back
        return frames - min(min(quiet, frames - words_end) // 2, furthest)

    def _widest_gap(self, hypothesis: Hypothesis, frames: int, quiet: int | None, frame_ms: float) -> int:
        words, running = hypothesis.words, hypothesis.running
        if not words:
            return running[0] if running and running[0] else self._in_silence(frames, 0, quiet, frame_ms)
        earliest = (self.longest_ms - self.gap_stretch_ms) / frame_ms
        # The most recent audio may contain a word that is not emitted yet. It counts as a gap only if it was quiet.
        sure = frames if self._quiet(quiet, frame_ms) else frames - round(self.look_back_ms / frame_ms)
        starts = [word.start for word in words[1:]] + [running[0] if running else max(sure, words[-1].end)]
        gaps = [
            (start - word.end, (word.end + start) // 2)
            for word, start in zip(words, starts, strict=True)
            if start > earliest
        ]
        width, middle = max(gaps, default=(0, frames))
        if width <= 0 and words[0].start > earliest:
            # Do not cut a word of somebody who begins to speak at the end of a long silence.
            return words[0].start - min(words[0].start // 2, round(self.look_back_ms / frame_ms))
        return middle

    def _quiet(self, quiet: int | None, frame_ms: float) -> bool:
        return quiet is not None and quiet * frame_ms >= self.quiet_ms


def end_of_words(hypothesis: Hypothesis) -> int:
    """Return the frame after the last one that belongs to a word of the hypothesis."""
    return max(hypothesis.words[-1].end if hypothesis.words else 0, hypothesis.running[1] if hypothesis.running else 0)


def paused(hypothesis: Hypothesis, frames: int, quiet: int | None) -> int:
    """Return for how many frames there was neither a word nor activity, if the model reports activity."""
    wordless = frames - end_of_words(hypothesis)
    return wordless if quiet is None else min(quiet, wordless)
