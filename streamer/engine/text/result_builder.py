"""Builds partial and final results from hypotheses: times, confidence, written form, and how much to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from streamer.engine.punctuation.marks import HeardWord, Mark, MarkedWord
from streamer.engine.search.search import Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.stream_events import Alternative, Final, Partial, SpokenWord
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.calibration import Calibration
from streamer.engine.text.hotword_spelling import spellings_of
from streamer.engine.text.sentence_marks import Asking, SegmentWords, SentenceMarks, Window
from streamer.engine.text.written_form import (
    Form,
    WrittenToken,
    read_tokens,
    settled_tokens,
    written_tokens,
)
from streamer.text.joining import joined


@dataclass(frozen=True)
class SegmentPosition:
    """Where a segment is: its number and start, and how much of the stream was computed.

    `frame_ms` and `step_ms`: the lengths of the frames and steps in which its words were found.
    """

    segment: int
    start_ms: int
    audio_ms: int
    frame_ms: float
    step_ms: int


@dataclass(frozen=True)
class SegmentEnding:
    """How a segment ended. Times are milliseconds from its start.

    `pause`: because the speaker paused. `heard_ms`: the last word is known to be followed by silence until then; None
    if the speaker did not pause. `following`: words that the search has found behind the cut.
    """

    pause: bool
    cut_ms: int = 0
    heard_ms: int | None = None
    following: tuple[HypothesisWord, ...] = ()


@dataclass
class ResultBuilder:
    """Builds the results of one stream, segment by segment."""

    options: StreamOptions
    calibration: Calibration
    begins: bool = True  # whether the next word begins a sentence
    marks: SentenceMarks | None = None  # without them a pause ends a sentence, and nothing else does
    untouched: bool = False  # the model writes by itself
    _last_end_ms: int = 0  # the end of the last final; no later word starts before it
    _agreed: tuple[str, ...] = ()  # the texts of the previous hypothesis
    _shown: tuple[str, int] = field(default=("", 0))
    _known: tuple[object, ...] = ()  # all that the last partial depended on: the same again shows nothing new
    _form: Form = field(init=False)

    def __post_init__(self) -> None:
        written = self.options.written
        if self.untouched:
            self._form = Form(rules=False)
        else:
            spellings = spellings_of(self.options.hotwords, capitals=written)
            self._form = Form(spellings, rules=written, dictation=written and self.options.dictation)

    def partial(self, found: Hypothesis, stable: int, position: SegmentPosition) -> Asking[Partial | None]:
        """The partial for a hypothesis whose first `stable` words will not change. None if it shows nothing new."""
        # What was agreed before says how much is shown only if stability is medium.
        known = found.words, stable, self._agreed if self.options.stability == "medium" else ()
        if known == self._known:
            return None
        self._known = known
        texts = tuple(word.text for word in found.words)
        marks: list[MarkedWord] | None = None
        if self.marks is not None:  # also without partials, so that the final does not depend on them
            segment = self._segment(found.words, position)
            marks = yield from self.marks.read(segment, self._surely_said(texts[:stable]))
            marks = _open_ended(marks, self.marks.decided)
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
            words = self._written(words, self._tokens(texts[:shown], marks))
            decided = None if self.marks is None else self.marks.decided
            sure = settled_tokens(read_tokens(texts[:sure], self._form), sure, decided)
            if self.options.stability == "high":
                words = words[:sure]  # what is not settled may still be written in another way
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
        self,
        found: Sequence[HypothesisWord],
        ranked: Sequence[LikelyWords],
        position: SegmentPosition,
        ending: SegmentEnding,
    ) -> Asking[Final]:
        """The final for the words of a segment that has ended."""
        marks: list[MarkedWord] | None = None
        others: Sequence[list[MarkedWord] | None] = [None] * len(ranked)
        if self.marks is not None:
            segments = [
                self._segment([*words, *ending.following], position, ending.heard_ms)
                for words in (found, *(words for words, _ in ranked))
            ]
            marks, others = yield from self.marks.end(segments[0], segments[1:])
        timed = self._timed(found, position)
        fit = self.calibration.fit(position.step_ms, self.options.search)
        confidences = [fit.confidence(word) for word in found]
        words = [
            SpokenWord(word.word, word.start_ms, word.end_ms, round(confidence, 3))
            for word, confidence in zip(timed, confidences, strict=True)
        ]
        texts = [word.word for word in words]
        tokens = self._tokens(texts, marks)
        if self._rewrites:
            words = self._written(words, tokens)
        final = Final(
            position.segment,
            _text(words),
            words[0].start_ms,
            words[-1].end_ms,
            position.audio_ms,
            round(self.calibration.final(confidences), 3),
            tuple(words) if self.options.words else None,
            joined(texts) if self.options.written else None,
            self._alternatives(texts, _text(words), ranked, others) if self.options.alternatives else None,
        )
        self._last_end_ms, self.begins = words[-1].end_ms, tokens[-1].ends
        self._begin_segment(found, position, ending)
        return final

    def cut(self, position: SegmentPosition, ending: SegmentEnding) -> None:
        """A segment without words has ended."""
        self._begin_segment((), position, ending)

    @property
    def context(self) -> Window | None:
        """The last words before the running segment, which decide its first marks; None if nothing decides marks."""
        return None if self.marks is None else self.marks.context

    @property
    def _rewrites(self) -> bool:
        """Whether what is shown may be other words than those that were said."""
        return self.options.written or bool(self._form.spellings)

    def _begin_segment(self, found: Sequence[HypothesisWord], position: SegmentPosition, ending: SegmentEnding) -> None:
        self._agreed, self._shown, self._known = (), ("", 0), ()
        if self.marks is None:
            self.begins = self.begins or ending.pause
        else:
            self.marks.cut(self._segment(found, position, ending.cut_ms), ending.cut_ms)

    def _segment(
        self, found: Sequence[HypothesisWord], position: SegmentPosition, heard_ms: int | None = None
    ) -> SegmentWords:
        """What the punctuation model may know of these words. `heard_ms`: where the silence after the last one ends."""
        spans = self.calibration.spans(found, position.frame_ms, position.step_ms, self.options.search)
        said = [
            place
            for token in read_tokens([word.text for word in found], self._form)
            for place in range(token.first, token.said)
        ]
        ends = [*(spans[place][0] for place in said[1:]), heard_ms]
        words = tuple(
            HeardWord(found[place].text.lower(), None if end is None else max(0, round(end - spans[place][1])))
            for place, end in zip(said, ends, strict=False)
        )
        return SegmentWords(round(spans[said[0]][0]) if said else 0, words)

    def _surely_said(self, texts: Sequence[str]) -> int:
        """How many of these words are certainly no dictated marks, and come before such that may be."""
        if not self._form.dictation:
            return len(texts)
        read = read_tokens(texts, self._form)
        return sum(token.said - token.first for token in read[: settled_tokens(read, len(texts))])

    def _timed(self, found: Sequence[HypothesisWord], position: SegmentPosition) -> list[SpokenWord]:
        """The words with times in the stream, in ascending order."""
        spans = self.calibration.spans(found, position.frame_ms, position.step_ms, self.options.search)

        def within(time: float) -> int:
            return min(max(position.start_ms + round(time), self._last_end_ms), position.audio_ms)

        return [
            SpokenWord(word.text, within(start), within(end)) for word, (start, end) in zip(found, spans, strict=True)
        ]

    def _tokens(self, texts: Sequence[str], marks: Sequence[MarkedWord] | None) -> list[WrittenToken]:
        read = read_tokens(texts, self._form)
        return written_tokens(read, begins=self.begins, capitals=self._form.rules, marks=marks)

    def _written(self, words: Sequence[SpokenWord], tokens: Sequence[WrittenToken]) -> list[SpokenWord]:
        found: list[SpokenWord] = []
        for token in tokens:
            part = words[token.first : token.end]
            spoken = joined([word.word for word in part])
            if not self.options.written and token.text == spoken:
                found += part
                continue
            confidences = [word.confidence for word in part if word.confidence is not None]
            confidence = min(confidences) if confidences else None  # a number is right only if all its words are
            found.append(SpokenWord(token.text, part[0].start_ms, part[-1].end_ms, confidence, spoken))
        return found

    def _alternatives(
        self,
        said: Sequence[str],
        best: str,
        ranked: Sequence[LikelyWords],
        marks: Sequence[list[MarkedWord] | None],
    ) -> tuple[Alternative, ...]:
        """The likeliest texts, beginning with that of the final. Texts that differ only after the cut are merged."""
        merged = {best: 0.0}
        for (words, probability), own in zip(ranked, marks, strict=True):
            texts = [word.text for word in words]
            text = best if texts == said else joined([token.text for token in self._tokens(texts, own)])
            merged[text] = merged.get(text, 0.0) + probability
        found = list(merged.items())[: self.options.alternatives]
        return tuple(Alternative(text, round(probability, 3)) for text, probability in found)


def _open_ended(marks: list[MarkedWord], decided: int) -> list[MarkedWord]:
    """The marks without that of the last word, because it is not known what follows."""
    if len(marks) <= decided:
        return marks
    return [*marks[:-1], replace(marks[-1], mark=Mark.NONE)]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words both have in common at the start."""
    for count, (mine, theirs) in enumerate(zip(one, other)):  # noqa: B905 - as far as both go
        if mine != theirs:
            return count
    return min(len(one), len(other))


def _text(words: Sequence[SpokenWord]) -> str:
    return joined([word.word for word in words])
