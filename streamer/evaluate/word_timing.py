"""Computes when each word of a transcript was shown, stable and final. Pure.

Times are measured by two clocks. The audio clock is the amount of audio that had been computed when an event was made
(`audio_ms`), so it does not depend on how fast audio was sent. The wall clock is when the event arrived. A word is
shown from the event since which it has kept its position in its segment, and stable from the first event whose stable
text includes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from streamer.evaluate.normalise import normalise
from streamer.text.joining import joined, words_of


class TimedEvent(NamedTuple):
    """An event of a session, and when it arrived: milliseconds after the beginning of the audio."""

    wall_ms: float
    event: Mapping[str, Any]


class TimePoint(NamedTuple):
    """One point in time by both clocks."""

    audio_ms: int
    wall_ms: float


class WordSpan(NamedTuple):
    """The start and end of a word, as the recogniser reports them."""

    start_ms: int
    end_ms: int


class TimedWord(NamedTuple):
    """A normalised word of the transcript, with the times when it was shown, stable and final.

    `span` and `confidence` are None if the word has none of its own. `written` is the text of its token, which may
    stand for several words; then only the last of them has it.
    """

    word: str
    shown: TimePoint
    stable: TimePoint
    final: TimePoint
    span: WordSpan | None = None
    confidence: float | None = None
    written: str = ""


class TimedFinal(NamedTuple):
    """A final: its words as they were spoken, and its confidence."""

    words: tuple[TimedWord, ...]
    confidence: float | None = None


class ShownWords(NamedTuple):
    """The words that a partial or final shows. The first `stable` of them are stable."""

    words: list[str]
    stable: int
    time: TimePoint


class FinalToken(NamedTuple):
    """Words of the text of a final that belong together, and the spoken words they stand for."""

    shown: list[str]
    spoken: list[str]
    span: WordSpan | None = None
    confidence: float | None = None


def words_of_event(event: Mapping[str, Any], time: TimePoint) -> ShownWords:
    """Return the words that a partial or final shows. Those of a final are all stable."""
    text: str = event["text"]
    stable = event.get("stable", 0) if event["type"] == "partial" else len(text)
    words, stable_words = words_of(text), words_of(text[:stable])
    splits_word = bool(stable_words) and stable_words[-1] != words[len(stable_words) - 1]  # in the middle of a word
    return ShownWords(words, len(stable_words) - splits_word, time)


def shown_over_time(events: Sequence[TimedEvent]) -> Iterator[tuple[Mapping[str, Any], ShownWords]]:
    """Yield the partials and finals in order, with the words they show."""
    for (wall_ms, event), audio_ms in zip(events, _audio_times(events), strict=True):
        if event["type"] in ("partial", "final"):
            yield event, words_of_event(event, TimePoint(audio_ms, wall_ms))


def timed_finals(events: Sequence[TimedEvent]) -> list[TimedFinal]:
    """Return all finals, in order."""
    finals = []
    running: dict[int, list[ShownWords]] = {}
    for event, now in shown_over_time(events):
        if event["type"] == "partial":
            running.setdefault(event["segment"], []).append(now)
            continue
        earlier = running.pop(event["segment"], [])
        words: list[TimedWord] = []
        position = 0
        for token in _tokens(event):
            end = position + len(token.shown)
            shown, stable = _since(position, token.shown, earlier), _stable(end, earlier)
            words += [
                TimedWord(
                    word,
                    shown or now.time,
                    # Stable text that changed later does not count as stable.
                    max(stable or now.time, shown or now.time),
                    now.time,
                    token.span,
                    token.confidence,
                    joined(token.shown) if place == len(token.spoken) else "",
                )
                for place, word in enumerate(token.spoken, 1)
            ]
            position = end
        finals.append(TimedFinal(tuple(words), event.get("confidence")))
    return finals


def _tokens(event: Mapping[str, Any]) -> list[FinalToken]:
    """Return the tokens of a final. In the written form a token may stand for several words without own times."""
    text: str = event["text"]
    words: Sequence[Mapping[str, Any]] = event.get("words") or ()
    if words and joined(word["word"] for word in words) == text:
        tokens = []
        for word in words:
            spoken = normalise(word.get("spoken", word["word"]))
            span = WordSpan(word["start_ms"], word["end_ms"]) if len(spoken) == 1 else None
            tokens.append(FinalToken(words_of(word["word"]), spoken, span, word.get("confidence")))
        return tokens
    if "spoken" in event:
        return [FinalToken(words_of(text), normalise(event["spoken"]))]
    return [FinalToken([word], normalise(word)) for word in words_of(text)]


def _since(position: int, words: list[str], earlier: Sequence[ShownWords]) -> TimePoint | None:
    first = None
    for partial in reversed(earlier):
        if partial.words[position : position + len(words)] != words:
            break
        first = partial.time
    return first


def _stable(end: int, earlier: Sequence[ShownWords]) -> TimePoint | None:
    return next((partial.time for partial in earlier if partial.stable >= end), None)


def _audio_times(events: Sequence[TimedEvent]) -> list[int]:
    """Return the audio clock at each event. An event without it has that of the next event with it."""
    clock = []
    later = next((timed.event["audio_ms"] for timed in reversed(events) if "audio_ms" in timed.event), 0)
    for timed in reversed(events):
        later = timed.event.get("audio_ms", later)
        clock.append(later)
    return clock[::-1]
