"""Builds partial and final results from hypotheses: times, confidence, written form, and how much to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from streamer.engine.search.search import Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.stream_events import Alternative, Final, Partial, SpokenWord
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.calibration import Calibration
from streamer.engine.text.hotword_spelling import Spellings
from streamer.engine.text.written_form import settled_tokens, written_tokens


@dataclass(frozen=True)
class SegmentPosition:
    """Where a segment is: its number and start, how much of the stream was computed, and the length of a frame."""

    segment: int
    start_ms: int
    audio_ms: int
    frame_ms: float


@dataclass
class ResultBuilder:
    """Builds the results of one stream, segment by segment."""

    options: StreamOptions
    calibration: Calibration
    _last_end_ms: int = 0  # the end of the last final; no later word starts before it
    begins: bool = True  # whether the next word begins a sentence
    _agreed: tuple[str, ...] = ()  # the texts of the previous hypothesis
    _shown: tuple[str, int] = field(default=("", 0))
    _spellings: Spellings = field(init=False)

    def __post_init__(self) -> None:
        self._spellings = Spellings.of((hotword.text, hotword.written) for hotword in self.options.hotwords)

    def partial(self, found: Hypothesis, stable: int, position: SegmentPosition) -> Partial | None:
        """The partial for a hypothesis whose first `stable` words will not change. None if it shows nothing new."""
        texts = tuple(word.text for word in found.words)
        shown = len(texts)
        if self.options.stability == "high":
            shown = stable
        elif self.options.stability == "medium":
            shown = max(stable, _common(texts, self._agreed))
        self._agreed = texts
        words = self._timed(found.words[:shown], position)
        if not words or not self.options.partials:
            return None
        sure = min(stable, shown)
        if self._rewrites:
            sure = settled_tokens(texts[:shown], sure, **self._form)
            words = self._written(words)
            if self.options.stability == "high":
                words = words[:sure]  # the rest of a number may still change how its beginning is written
        if not words:
            return None
        text = _text(words)
        showing = text, len(_text(words[:sure]))
        if showing == self._shown:
            return None
        self._shown = showing
        return Partial(
            position.segment,
            *showing,
            words[0].start_ms,
            position.audio_ms,
            tuple(words) if self.options.partial_words else None,
        )

    def final(
        self, found: Sequence[HypothesisWord], ranked: Sequence[LikelyWords], position: SegmentPosition, *, pause: bool
    ) -> Final:
        """The final for the words of a segment that has ended. `pause`: the next word begins a sentence."""
        timed = self._timed(found, position)
        fit = self.calibration.fit(self.options.step_ms, self.options.search)
        confidences = [fit.confidence(word) for word in found]
        words = [
            SpokenWord(word.word, word.start_ms, word.end_ms, round(confidence, 3))
            for word, confidence in zip(timed, confidences, strict=True)
        ]
        spoken = None
        if self.options.written:
            spoken = _text(words)
        if self._rewrites:
            words = self._written(words)
        final = Final(
            position.segment,
            _text(words),
            words[0].start_ms,
            words[-1].end_ms,
            position.audio_ms,
            round(self.calibration.final(confidences), 3),
            tuple(words) if self.options.words else None,
            spoken,
            self._alternatives(_text(words), ranked) if self.options.alternatives else None,
        )
        self._last_end_ms, self.begins = words[-1].end_ms, False
        self.cut(pause=pause)
        return final

    def cut(self, *, pause: bool) -> None:
        """Start a new segment. After a pause it begins a sentence."""
        self.begins = self.begins or pause
        self._agreed, self._shown = (), ("", 0)

    @property
    def _rewrites(self) -> bool:
        """Whether what is shown may be other words than those that were said."""
        return self.options.written or bool(self._spellings)

    @property
    def _form(self) -> dict[str, Any]:
        return {"begins": self.begins, "spellings": self._spellings, "rules": self.options.written}

    def _timed(self, found: Sequence[HypothesisWord], position: SegmentPosition) -> list[SpokenWord]:
        """The words with times in the stream, in ascending order."""
        spans = self.calibration.spans(found, position.frame_ms, self.options.step_ms, self.options.search)

        def within(time: float) -> int:
            return min(max(position.start_ms + round(time), self._last_end_ms), position.audio_ms)

        return [
            SpokenWord(word.text, within(start), within(end)) for word, (start, end) in zip(found, spans, strict=True)
        ]

    def _written(self, words: Sequence[SpokenWord]) -> list[SpokenWord]:
        found: list[SpokenWord] = []
        for token in written_tokens([word.word for word in words], **self._form):
            part = words[token.first : token.end]
            if not self.options.written and token.text == _text(part):
                found += part
                continue
            confidences = [word.confidence for word in part if word.confidence is not None]
            confidence = min(confidences) if confidences else None  # a number is right only if all its words are
            found.append(SpokenWord(token.text, part[0].start_ms, part[-1].end_ms, confidence, _text(part)))
        return found

    def _alternatives(self, best: str, ranked: Sequence[LikelyWords]) -> tuple[Alternative, ...]:
        """The likeliest texts, beginning with that of the final. Texts that differ only after the cut are merged."""
        merged = {best: 0.0}
        for words, probability in ranked:
            texts = [word.text for word in words]
            if self._rewrites:
                texts = [token.text for token in written_tokens(texts, **self._form)]
            text = " ".join(texts)
            merged[text] = merged.get(text, 0.0) + probability
        found = list(merged.items())[: self.options.alternatives]
        return tuple(Alternative(text, round(probability, 3)) for text, probability in found)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words both have in common at the start."""
    for count, (mine, theirs) in enumerate(zip(one, other)):  # noqa: B905 - as far as both go
        if mine != theirs:
            return count
    return min(len(one), len(other))


def _text(words: Sequence[SpokenWord]) -> str:
    return " ".join(word.word for word in words)
