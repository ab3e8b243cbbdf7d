"""Where a segment ends: a rule over the words found so far, pure and in emission frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamer.engine.search import Hypothesis, Word


@dataclass(frozen=True)
class Ending:
    """The segment ends at `frame`, before the words that start there or later; `silence`: the speaker paused."""

    frame: int
    silence: bool


@dataclass(frozen=True)
class EndpointRule:
    """Silence after text, silence without text, and the longest segment, all in milliseconds."""

    silence_after_text_ms: int = 1000
    silence_without_text_ms: int = 2400
    longest_ms: int = 20_000
    # A word that has just begun may not have been emitted yet: a cut in silence lies this far back.
    look_back_ms: int = 320
    # The longest segment is cut at the widest gap between words within this stretch before its end.
    gap_stretch_ms: int = 5000

    def __post_init__(self) -> None:
        if min(self.silence_after_text_ms, self.silence_without_text_ms) <= self.look_back_ms:
            raise ValueError(f"a silence must be longer than the look-back of {self.look_back_ms} ms")
        if self.longest_ms <= self.gap_stretch_ms:
            raise ValueError(f"the longest segment must be longer than {self.gap_stretch_ms} ms")

    def ending(self, found: Hypothesis, frames: int, frame_ms: float) -> Ending | None:
        """Whether a segment of that many frames, in which this was found, ends, and where."""
        words = found.words
        heard = max(words[-1].end if words else 0, found.running[1] if found.running else 0)
        silence = (frames - heard) * frame_ms
        if silence >= (self.silence_after_text_ms if words else self.silence_without_text_ms):
            return Ending(frames - round(self.look_back_ms / frame_ms), silence=True)
        if frames * frame_ms >= self.longest_ms:
            return Ending(self._widest_gap(found, frames, frame_ms), silence=False)
        return None

    def settled(self, words: Sequence[Word], frame_ms: float) -> int:
        """How many of the words stay in this segment wherever it is cut: the others may become the next one's."""
        limit = (self.longest_ms - self.gap_stretch_ms) / frame_ms
        return sum(word.start <= limit for word in words)

    def _widest_gap(self, found: Hypothesis, frames: int, frame_ms: float) -> int:
        words = found.words
        earliest = (self.longest_ms - self.gap_stretch_ms) / frame_ms
        starts = [word.start for word in words[1:]] + [found.running[0] if found.running else frames]
        gaps = [
            (start - word.end, (word.end + start) // 2)
            for word, start in zip(words, starts, strict=True)
            if start > earliest
        ]
        return max(gaps)[1] if gaps else frames
