"""Decides where a segment ends, from the words so far and from speech activity. Times are emission frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamer.base.events import TurnState
from streamer.base.limits import AFTER_TEXT_MS, EAGERNESS, LONGEST_PAUSE_MS, LONGEST_SEGMENT_MS, WITHOUT_TEXT_MS
from streamer.engine.search.search import Hypothesis, HypothesisWord


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

    With `turn`, the words so far decide how long the silence after them must be (`engine/endpointing.py`).
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


# Decides how long a pause must be to end a turn, from the probability that the turn is over.

UNKNOWN = 0.5
"""The probability without a judge of the words. Then only the silence decides."""

LOOK_MS = 160
"""A shorter pause is not judged, because it may be within a word."""

FLUENT_MS = 2000
"""After this much speech without a pause, the speaker does not count as hesitating."""

EAGER_OVER = 0.5
"""From this probability on, a pause is reported as the probable end of a turn."""


@dataclass(frozen=True)
class Patience:
    """The pause that ends a turn. It is `surely_ms` if the words are almost certainly complete.

    Otherwise it is longer by `doubt_ms` for each unit by which the log-odds that the turn is over are below `sure`.
    """

    surely_ms: int
    doubt_ms: int
    sure: float

    def pause_ms(self, over: float, spoken_ms: float | None) -> float:
        """Return the pause that ends a turn which is over with this probability.

        `spoken_ms` is the time from the previous pause to this one; None without a previous pause. A speaker who has
        paused a short time ago is looking for words, or reads aloud, and will probably pause again. So the odds are
        lower.
        """
        odds = math.log(max(over, 1e-6) / max(1 - over, 1e-6))
        if spoken_ms is not None:
            odds += min(0.0, math.log((spoken_ms + 100) / (FLUENT_MS + 100)))
        return self.surely_ms + self.doubt_ms * max(0.0, self.sure - odds)


# Chosen on the first half of the turns of scripts/measure/turns.py.
PATIENCE = {
    "low": Patience(680, 450, 2.0),
    "medium": Patience(360, 450, 2.0),
    "high": Patience(240, 450, 1.2),
}


@dataclass(frozen=True)
class TurnRule:
    """The pause that ends a turn for the options of a stream. It is never longer than `longest_pause_ms`."""

    eagerness: str = EAGERNESS
    longest_pause_ms: int = LONGEST_PAUSE_MS

    def pause_ms(self, over: float, spoken_ms: float | None = None) -> int:
        """Return the pause that ends a turn which is over with this probability, this long after the last pause."""
        return round(min(PATIENCE[self.eagerness].pause_ms(over, spoken_ms), self.longest_pause_ms))


# Follows the pauses of one stream, and decides how long a pause ends the turn, and what the client learns of it.

Judge = Callable[[Sequence[str]], float]
"""Returns the probability that a turn is over after these words."""


def frames_to_end(pause_ms: float, paused_ms: float, frame_ms: float, step_frames: int) -> int:
    """Return how many more frames of silence end a turn if a pause of `pause_ms` ends it, after `paused_ms` of pause.

    Return 0 if the turn does not end before the end of the next step.
    """
    frames = math.ceil((pause_ms - paused_ms) / frame_ms)
    return frames if 0 < frames < step_frames else 0


class TurnWatch:
    """Judges the pauses of one stream."""

    def __init__(self, rule: TurnRule, judge: Judge | None = None) -> None:
        """Without `judge`, the words have no effect, and every turn ends after the same silence."""
        self.over = UNKNOWN  # the last probability that the turn is over
        self._rule = rule
        self._judge = judge
        self._words: list[str] = []  # the words of the last judgement
        self._worded = False  # whether the pause follows a word
        self._eager = False  # whether the client was told that the turn is probably over

    def pause_ms(
        self,
        hypothesis: Hypothesis,
        paused_ms: float,
        finish: Callable[[], Sequence[HypothesisWord]],
        spoken_ms: float | None = None,
    ) -> int | None:
        """Return the pause that ends the turn; None if the present pause is too short to judge, or follows no word.

        `finish` returns the words if the segment ended here, which takes some time. `spoken_ms` is the time from the
        previous pause to this one, if there was one and the activity is known.
        """
        if paused_ms < LOOK_MS or not (hypothesis.words or hypothesis.running):
            self._worded = False
            return None
        # The words of `finish` are used only if the hypothesis has no whole word yet. They are chosen as a complete
        # sentence, so they show less well whether something is missing.
        words = [word.text for word in hypothesis.words or finish()]
        if words != self._words:
            self._words = words
            self.over = self._judge(words) if self._judge and words else UNKNOWN
        self._worded = bool(self._words)
        return self._rule.pause_ms(self.over, spoken_ms) if self._worded else None

    def go_on(self, paused_ms: float) -> TurnState | None:
        """Note that a pause of this length has not ended the turn. Return the new state if it has changed."""
        pausing = paused_ms >= LOOK_MS and self._worded
        if self._eager and not pausing:
            self._eager = False
            return TurnState.RESUMED
        if not self._eager and pausing and self.over >= EAGER_OVER:
            self._eager = True
            return TurnState.EAGER
        return None

    def begin(self) -> TurnState | None:
        """Begin another segment. Return the state to report if the last segment has not ended in a pause."""
        eager = self._eager
        self._eager, self._worded, self._words = False, False, []
        return TurnState.RESUMED if eager else None
