"""The results of recognising a manifest: words, when each was heard, shown and stable, waits, and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np

from streamer.audio.audio_file import SAMPLE_RATE, Int16Samples
from streamer.base.text import joined, words_of
from streamer.commands.accuracy.manifest import Utterance, normalise

# Computes when each word of a transcript was shown, stable and final.


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


# Counts how many words of partials changed later, and whether stable text changed.

NO_WORDS: Final = ShownWords([], 0, TimePoint(0, 0.0))


@dataclass(frozen=True)
class PartialCounts:
    """Counts of shown and changed words, which can be added up.

    A word is shown when it appears at a position in its segment. It is changed when another word or nothing takes that
    position. If it comes back, it counts as shown once more.
    """

    shown: int = 0
    changed: int = 0
    broken: int = 0  # words that were stable and then changed, or were unstable again

    def __add__(self, other: PartialCounts) -> PartialCounts:
        return PartialCounts(self.shown + other.shown, self.changed + other.changed, self.broken + other.broken)


NOTHING_SHOWN: Final = PartialCounts()


def count_partials(events: Sequence[TimedEvent]) -> PartialCounts:
    """Return the counts of a session. Words that were shown but never became final count as changed."""
    counts = NOTHING_SHOWN
    running: dict[int, ShownWords] = {}
    for event, now in shown_over_time(events):
        before = running.pop(event["segment"], NO_WORDS)
        if event["type"] == "partial":
            running[event["segment"]] = now
        counts += _step(before, now, partial=event["type"] == "partial")
    for words in running.values():
        counts += _step(words, NO_WORDS, partial=False)
    return counts


def _step(before: ShownWords, after: ShownWords, *, partial: bool) -> PartialCounts:
    same = [mine == theirs for mine, theirs in zip(before.words, after.words)]  # noqa: B905 - as far as both go
    stable = sum(same[: min(before.stable, after.stable)])
    return PartialCounts(
        shown=len(after.words) - sum(same) if partial else 0,
        changed=len(before.words) - sum(same),
        broken=before.stable - stable,
    )


ProgressCallback = Callable[[Utterance, float], None]
"""Called after each utterance with its length in seconds."""


class Unavailable(Exception):
    """The recordings cannot be recognised here; the message says why."""


@dataclass(frozen=True)
class UtteranceResult:
    """The result of one utterance. `failure` is a sentence if its session failed, otherwise empty."""

    utterance: Utterance
    seconds: float
    finals: tuple[TimedFinal, ...]
    failure: str = ""
    partials: PartialCounts = NOTHING_SHOWN
    end_delay: EndDelay | None = None  # only if the audio was sent as fast as it was spoken

    @property
    def timed_words(self) -> tuple[TimedWord, ...]:
        """The words of all finals, with their times."""
        return tuple(word for final in self.finals for word in final.words)

    @property
    def words(self) -> tuple[str, ...]:
        """The normalised words of all finals."""
        return tuple(timed_word.word for timed_word in self.timed_words)


@dataclass(frozen=True)
class EvaluationRun:
    """The results of all utterances in the order of the manifest, and the time it took.

    `cpu` has CPU seconds by the name of what used them.
    """

    results: Sequence[UtteranceResult]
    wall_s: float
    cpu: dict[str, float]

    @property
    def seconds(self) -> float:
        """The seconds of audio that were recognised without a failure."""
        return sum(result.seconds for result in self.results if not result.failure)


def utterance_result(
    utterance: Utterance,
    samples: Int16Samples,
    events: Sequence[TimedEvent],
    failure: str = "",
    end_delay: EndDelay | None = None,
) -> UtteranceResult:
    """Return the result of an utterance from the events of its session."""
    finals = tuple(timed_finals(events))
    return UtteranceResult(utterance, len(samples) / SAMPLE_RATE, finals, failure, count_partials(events), end_delay)


# Measures how long a client waits for the final that it requests: after a flush, and after `stop`.


class FinalRequest(str, Enum):
    """The messages with which a client requests the final of the last words."""

    FLUSH = "flush"
    STOP = "stop"


@dataclass(frozen=True)
class EndDelay:
    """The time from a request to its last final, by the wall clock."""

    request: FinalRequest
    wall_ms: float


@dataclass(frozen=True)
class EndDelays:
    """The delays after many requests of one kind, in milliseconds."""

    number: int
    median_ms: float
    p95_ms: float
    longest_ms: float


def summarise_end_delays(end_delays: Sequence[EndDelay | None]) -> dict[str, EndDelays]:
    """Return the delays by the kind of the request, without kinds that did not occur."""
    summary = {}
    for kind in FinalRequest:
        delays = [each.wall_ms for each in end_delays if each is not None and each.request is kind]
        if delays:
            median, high = np.percentile(delays, (50, 95))
            summary[kind.value] = EndDelays(len(delays), float(median), float(high), max(delays))
    return summary
