"""Builds partials and finals from hypotheses: times, confidences, written form, and how much is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from streamer.base.events import Alternative, Final, Partial, Word
from streamer.base.text import joined
from streamer.base.text_context import ContextWord
from streamer.engine.search.search import Hypothesis, HypothesisWord, LikelyWords
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.calibration import Calibration
from streamer.engine.text.hotword_spelling import spellings_of
from streamer.engine.text.marks import Case, HeardWord, Mark, MarkedWord
from streamer.engine.text.profanity import Profanity, clean_words
from streamer.engine.text.sentence_marks import Asking, SegmentWords, SentenceMarks
from streamer.engine.text.written_form import Form, WrittenToken, read_tokens, settled_tokens, written_tokens


@dataclass(frozen=True)
class SegmentPosition:
    """The position of a segment: its number and start, and how much of the stream was computed.

    `frame_ms` and `step_ms` are the lengths of the frames and steps with which `search` found its words.
    """

    segment: int
    start_ms: int
    audio_ms: int
    frame_ms: float
    step_ms: int
    search: str


@dataclass(frozen=True)
class SegmentEnding:
    """The end of a segment. Times are milliseconds from its start.

    `pause`: the segment ended because the speaker paused. `heard_ms` is the end of the known silence after the last
    word; None if the speaker did not pause. `following` has words that the search found after the cut.
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
    marks: SentenceMarks | None = None  # without them, only a pause ends a sentence
    untouched: bool = False  # the model writes marks, capitals and figures itself
    _last_end_ms: int = 0  # the end of the last final; no later word starts before it
    _last_texts: tuple[str, ...] = ()  # the texts of the previous hypothesis
    _last_shown: tuple[str, int] = field(default=("", 0))  # the text of the last partial, and its stable characters
    _last_state: tuple[object, ...] = ()  # all values on which the last partial depended
    _form: Form = field(init=False)
    _profanity: Profanity = field(init=False)

    def __post_init__(self) -> None:
        self._profanity = Profanity(self.options.profanity)
        written = self.options.written
        if self.untouched:
            self._form = Form(rules=False)
        else:
            spellings = spellings_of(self.options.hotwords, capitals=written)
            self._form = Form(spellings, rules=written, dictation=written and self.options.dictation)

    def partial(self, hypothesis: Hypothesis, stable: int, position: SegmentPosition) -> Asking[Partial | None]:
        """Return the partial for a hypothesis whose first `stable` words will not change; None if nothing is new."""
        # The previous texts have an effect only if the stability is medium.
        state = hypothesis.words, stable, self._last_texts if self.options.stability == "medium" else ()
        if state == self._last_state:
            return None
        self._last_state = state
        texts = tuple(word.text for word in hypothesis.words)
        marks: list[MarkedWord] | None = None
        if self.marks is not None:  # also without partials, so that the final does not depend on `partials`
            segment = self._segment(hypothesis.words, position)
            marks = yield from self.marks.read(segment, self._certain_words(texts[:stable]))
            marks = _open_ended(marks, self.marks.decided)
        shown = len(texts)
        if self.options.stability == "high":
            shown = stable
        elif self.options.stability == "medium":
            shown = max(stable, _common(texts, self._last_texts))
        self._last_texts = texts
        plain = not (self.options.partial_words or self._rewrites) and self._profanity is Profanity.KEEP
        # A plain text needs no times but the first one.
        words = self._timed(hypothesis.words[: min(shown, 1) if plain else shown], position)
        if not words or not self.options.partials:
            return None
        sure = min(stable, shown)
        if self._rewrites:
            words = self._written(words, self._tokens(texts[:shown], marks))
            decided = None if self.marks is None else self.marks.decided
            sure = settled_tokens(read_tokens(texts[:sure], self._form), sure, decided)
            if self.options.stability == "high":
                words = words[:sure]  # the written form of the others may still change
        if plain:
            content = joined(texts[:shown]), len(joined(texts[:sure]))
        else:
            stable_text = _text(clean_words(words[:sure], self._profanity))
            words = clean_words(words, self._profanity)
            if not words:
                return None
            content = _text(words), len(stable_text)
        if content == self._last_shown:
            return None
        self._last_shown = content
        return Partial(
            position.segment,
            *content,
            words[0].start_ms,
            position.audio_ms,
            tuple(words) if self.options.partial_words else None,
        )

    def final(
        self,
        own_words: Sequence[HypothesisWord],
        alternatives: Sequence[LikelyWords],
        position: SegmentPosition,
        ending: SegmentEnding,
    ) -> Asking[Final | None]:
        """Return the final for the words of a segment that has ended; None if it would be empty."""
        marks: list[MarkedWord] | None = None
        others: Sequence[list[MarkedWord] | None] = [None] * len(alternatives)
        if self.marks is not None:
            segments = [
                self._segment([*words, *ending.following], position, ending.heard_ms)
                for words in (own_words, *(words for words, _ in alternatives))
            ]
            marks, others = yield from self.marks.end(segments[0], segments[1:])
        if self.options.written:
            marks = _with_reader_marks(own_words, marks, pause=ending.pause)
        timed_words = self._timed(own_words, position)
        fit = self.calibration.fit(position.step_ms, position.search)
        confidences = [fit.confidence(word) for word in own_words]
        words = [
            Word(word.word, word.start_ms, word.end_ms, round(confidence, 3))
            for word, confidence in zip(timed_words, confidences, strict=True)
        ]
        texts = [word.word for word in words]
        tokens = self._tokens(texts, marks)
        if self._rewrites:
            words = self._written(words, tokens)
        words = clean_words(words, self._profanity)
        text = _text(words)
        final = text and Final(
            position.segment,
            text,
            words[0].start_ms,
            words[-1].end_ms,
            position.audio_ms,
            round(self.calibration.final(confidences), 3),
            tuple(words) if self.options.words else None,
            self._clean(texts) if self.options.written else None,
            self._alternatives(texts, text, alternatives, others) if self.options.alternatives else None,
        )
        self._last_end_ms, self.begins = timed_words[-1].end_ms, tokens[-1].ends
        self._begin_segment(own_words, position, ending)
        return final or None

    def cut(self, position: SegmentPosition, ending: SegmentEnding) -> None:
        """End a segment without words."""
        self._begin_segment((), position, ending)

    @property
    def context(self) -> tuple[ContextWord, ...] | None:
        """The last words before the running segment, which decide its first marks; None without `marks`."""
        if self.marks is None:
            return None
        return tuple(ContextWord(word.word, word.pause_ms or 0) for word in self.marks.context)

    @property
    def _rewrites(self) -> bool:
        """Whether the shown words may differ from the spoken words."""
        return self.options.written or bool(self._form.spellings)

    def _begin_segment(self, words: Sequence[HypothesisWord], position: SegmentPosition, ending: SegmentEnding) -> None:
        self._last_texts, self._last_shown, self._last_state = (), ("", 0), ()
        if self.marks is None:
            self.begins = self.begins or ending.pause
        else:
            self.marks.cut(self._segment(words, position, ending.cut_ms), ending.cut_ms)

    def _segment(
        self, search_words: Sequence[HypothesisWord], position: SegmentPosition, heard_ms: int | None = None
    ) -> SegmentWords:
        """Return these words for the punctuation model. `heard_ms` is the end of the silence after the last one."""
        spans = self.calibration.spans(search_words, position.frame_ms, position.step_ms, position.search)
        places = [
            place
            for token in read_tokens([word.text for word in search_words], self._form)
            for place in range(token.first, token.spoken_end)
        ]
        ends = [*(spans[place][0] for place in places[1:]), heard_ms]
        words = tuple(
            HeardWord(search_words[place].text.lower(), None if end is None else max(0, round(end - spans[place][1])))
            for place, end in zip(places, ends, strict=False)
        )
        return SegmentWords(round(spans[places[0]][0]) if places else 0, words)

    def _certain_words(self, texts: Sequence[str]) -> int:
        """Return how many words at the start are certainly not dictated marks."""
        if not self._form.dictation:
            return len(texts)
        read = read_tokens(texts, self._form)
        return sum(token.spoken_end - token.first for token in read[: settled_tokens(read, len(texts))])

    def _timed(self, words: Sequence[HypothesisWord], position: SegmentPosition) -> list[Word]:
        """Return the words with times in the stream, in ascending order."""
        spans = self.calibration.spans(words, position.frame_ms, position.step_ms, position.search)

        def within(time: float) -> int:
            return min(max(position.start_ms + round(time), self._last_end_ms), position.audio_ms)

        return [Word(word.text, within(start), within(end)) for word, (start, end) in zip(words, spans, strict=True)]

    def _clean(self, texts: Sequence[str]) -> str:
        """Return the text of these words without what the option `profanity` excludes."""
        return _text(clean_words([Word(text, 0, 0) for text in texts], self._profanity))

    def _tokens(self, texts: Sequence[str], marks: Sequence[MarkedWord] | None) -> list[WrittenToken]:
        read = read_tokens(texts, self._form)
        return written_tokens(read, begins=self.begins, capitals=self._form.rules, marks=marks)

    def _written(self, spoken_words: Sequence[Word], tokens: Sequence[WrittenToken]) -> list[Word]:
        result: list[Word] = []
        for token in tokens:
            part = spoken_words[token.first : token.end]
            spoken = joined([word.word for word in part])
            if not self.options.written and token.text == spoken:
                result += part
                continue
            confidences = [word.confidence for word in part if word.confidence is not None]
            confidence = min(confidences) if confidences else None  # a number is right only if all its words are right
            result.append(Word(token.text, part[0].start_ms, part[-1].end_ms, confidence, spoken))
        return result

    def _alternatives(
        self,
        final_texts: Sequence[str],
        best: str,
        alternatives: Sequence[LikelyWords],
        marks: Sequence[list[MarkedWord] | None],
    ) -> tuple[Alternative, ...]:
        """Return the likeliest texts, beginning with that of the final. Merge texts that differ only after the cut."""
        merged = {best: 0.0}
        for (words, probability), own in zip(alternatives, marks, strict=True):
            texts = [word.text for word in words]
            text = best if texts == final_texts else self._clean([token.text for token in self._tokens(texts, own)])
            merged[text] = merged.get(text, 0.0) + probability
        likeliest = list(merged.items())[: self.options.alternatives]
        return tuple(Alternative(text, round(probability, 3)) for text, probability in likeliest)


def _with_reader_marks(
    words: Sequence[HypothesisWord], marks: list[MarkedWord] | None, *, pause: bool
) -> list[MarkedWord] | None:
    """Return the marks and capitals that a reader has written, where it has, and otherwise these.

    A reader writes a capital at the start of each segment, and a full stop at its end. So the capitals of a first word
    are not believed, nor the last mark if the speaker did not pause.
    """
    if not any(word.marked for word in words):
        return marks
    known = marks or [MarkedWord.plain()] * len(words)
    result: list[MarkedWord] = []
    for place, (word, other) in enumerate(zip(words, known, strict=False)):
        own = word.marked or other
        first = place == 0 or result[-1].mark.ends_sentence
        case = other.case if first and own.case is not Case.ALL else own.case
        mark = other.mark if place == len(words) - 1 and not pause else own.mark
        result.append(MarkedWord(mark, case))
    return result + list(known[len(words) :])


def _open_ended(marks: list[MarkedWord], decided: int) -> list[MarkedWord]:
    """Return the marks without the mark of the last word, because the word after it is not known."""
    if len(marks) <= decided:
        return marks
    return [*marks[:-1], replace(marks[-1], mark=Mark.NONE)]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of words with which both begin."""
    for count, (word, other_word) in enumerate(zip(one, other)):  # noqa: B905 - as far as both go
        if word != other_word:
            return count
    return min(len(one), len(other))


def _text(words: Sequence[Word]) -> str:
    return joined([word.word for word in words])
