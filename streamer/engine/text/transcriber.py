"""What is told of the words of a segment: their times, confidence and form, and how much of it may be shown yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from streamer.engine.events import Alternative, Final, Partial, SpokenWord
from streamer.engine.options import StreamOptions
from streamer.engine.search.search import Hypothesis, HypothesisWord
from streamer.engine.search.search import LikelyWords as Ranked
from streamer.engine.text.calibration import Calibration
from streamer.engine.text.written_form import settled, written


@dataclass(frozen=True)
class SegmentPosition:
    """Where a segment lies: its number, where it starts, how much of the stream was heard, and a frame's length."""

    segment: int
    start_ms: int
    audio_ms: int
    frame_ms: float


@dataclass
class Transcriber:
    """Writes down one stream, segment by segment."""

    options: StreamOptions
    calibration: Calibration
    _told_ms: int = 0  # the end of the last word of a final: no later time is smaller
    begins: bool = True  # whether the next word begins a sentence
    _agreed: tuple[str, ...] = ()  # the words of the last step
    _shown: tuple[str, int] = field(default=("", 0))

    def partial(self, found: Hypothesis, stable: int, place: SegmentPosition) -> Partial | None:
        """What is to be shown of a hypothesis, `stable` words of which will not change; None if it is nothing new."""
        texts = tuple(word.text for word in found.words)
        shown = len(texts)
        if self.options.stability == "high":
            shown = stable
        elif self.options.stability == "medium":
            shown = max(stable, _common(texts, self._agreed))
        self._agreed = texts
        words = self._timed(found.words[:shown], place)
        if not words or not self.options.partials:
            return None
        sure = min(stable, shown)
        if self.options.written:
            sure = settled(texts[:shown], sure, begins=self.begins)
            words = self._written(words)
            if self.options.stability == "high":
                words = words[:sure]  # the rest of a number may still change how its begin is written
        if not words:
            return None
        text = _text(words)
        telling = text, len(_text(words[:sure]))
        if telling == self._shown:
            return None
        self._shown = telling
        return Partial(
            place.segment,
            *telling,
            words[0].start_ms,
            place.audio_ms,
            tuple(words) if self.options.partial_words else None,
        )

    def final(
        self, found: Sequence[HypothesisWord], ranked: Sequence[Ranked], place: SegmentPosition, *, pause: bool
    ) -> Final:
        """The words of a segment that has ended; `pause`: what follows begins a sentence."""
        told = self._timed(found, place)
        fit = self.calibration.fit(self.options.step_ms, self.options.search)
        confidences = [fit.confidence(word) for word in found]
        words = [
            SpokenWord(word.word, word.start_ms, word.end_ms, round(confidence, 3))
            for word, confidence in zip(told, confidences, strict=True)
        ]
        spoken = None
        if self.options.written:
            spoken, words = _text(words), self._written(words)
        final = Final(
            place.segment,
            _text(words),
            words[0].start_ms,
            words[-1].end_ms,
            place.audio_ms,
            round(self.calibration.final(confidences), 3),
            tuple(words) if self.options.words else None,
            spoken,
            self._alternatives(_text(words), ranked) if self.options.alternatives else None,
        )
        self._told_ms, self.begins = words[-1].end_ms, False
        self.cut(pause=pause)
        return final

    def cut(self, *, pause: bool) -> None:
        """A new segment starts; behind a pause it begins a sentence."""
        self.begins = self.begins or pause
        self._agreed, self._shown = (), ("", 0)

    def _timed(self, found: Sequence[HypothesisWord], place: SegmentPosition) -> list[SpokenWord]:
        """Words with times in the stream, which only grow."""
        spans = self.calibration.spans(found, place.frame_ms, self.options.step_ms, self.options.search)

        def within(time: float) -> int:
            return min(max(place.start_ms + round(time), self._told_ms), place.audio_ms)

        return [
            SpokenWord(word.text, within(start), within(end)) for word, (start, end) in zip(found, spans, strict=True)
        ]

    def _written(self, words: Sequence[SpokenWord]) -> list[SpokenWord]:
        found = []
        for piece in written([word.word for word in words], begins=self.begins):
            part = words[piece.first : piece.end]
            confidences = [word.confidence for word in part if word.confidence is not None]
            confidence = min(confidences) if confidences else None  # a number is right if all its words are
            found.append(SpokenWord(piece.text, part[0].start_ms, part[-1].end_ms, confidence, _text(part)))
        return found

    def _alternatives(self, best: str, ranked: Sequence[Ranked]) -> tuple[Alternative, ...]:
        """The likeliest texts, that of the final first; what was alike up to the cut is one."""
        merged = {best: 0.0}
        for words, probability in ranked:
            texts = [word.text for word in words]
            if self.options.written:
                texts = [piece.text for piece in written(texts, begins=self.begins)]
            text = " ".join(texts)
            merged[text] = merged.get(text, 0.0) + probability
        found = list(merged.items())[: self.options.alternatives]
        return tuple(Alternative(text, round(probability, 3)) for text, probability in found)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words both begin with."""
    for count, (mine, theirs) in enumerate(zip(one, other)):  # noqa: B905 - as far as both go
        if mine != theirs:
            return count
    return min(len(one), len(other))


def _text(words: Sequence[SpokenWord]) -> str:
    return " ".join(word.word for word in words)
