"""The words of a transcript and when they came: first shown and kept, stable, final. Pure.

There are two clocks. The audio's is how much audio had been computed when an event was made (`audio_ms`), so it does
not depend on how fast the audio was sent; the wall's is when the event arrived. A word counts as shown from the event
on since which it has stood in the same place of its segment, and as stable from the first one whose stable text has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from streamer.evaluate.normalise import normalise


class Arrival(NamedTuple):
    """An event, and how many milliseconds after the beginning of the audio it arrived here."""

    wall_ms: float
    event: Mapping[str, Any]


class Moment(NamedTuple):
    """The same moment by two clocks."""

    audio_ms: int
    wall_ms: float


class Span(NamedTuple):
    """Where a word is said to lie."""

    start_ms: int
    end_ms: int


class Emission(NamedTuple):
    """A word of the transcript, normalised; without span or confidence where it has none of its own."""

    word: str
    shown: Moment
    stable: Moment
    final: Moment
    span: Span | None = None
    confidence: float | None = None


class Final(NamedTuple):
    """A final: its words as they were spoken, and how likely they are right."""

    words: tuple[Emission, ...]
    confidence: float | None = None


class View(NamedTuple):
    """What a partial shows: words of which the first so many are stable."""

    words: list[str]
    stable: int
    moment: Moment


class Piece(NamedTuple):
    """Words of a final's text that belong together, and what was spoken for them."""

    shown: list[str]
    spoken: list[str]
    span: Span | None = None
    confidence: float | None = None


def view(event: Mapping[str, Any], moment: Moment) -> View:
    """A partial, or a final, which is stable as a whole."""
    text: str = event["text"]
    stable = event.get("stable", 0) if event["type"] == "partial" else len(text)
    cut = 0 < stable < len(text) and " " not in text[stable - 1 : stable + 1]  # in the middle of a word
    return View(text.split(), len(text[:stable].split()) - cut, moment)


def views(arrivals: Sequence[Arrival]) -> Iterator[tuple[Mapping[str, Any], View]]:
    """The partials and finals, in order, with what they show."""
    for (wall_ms, event), audio_ms in zip(arrivals, _clock(arrivals), strict=True):
        if event["type"] in ("partial", "final"):
            yield event, view(event, Moment(audio_ms, wall_ms))


def finals(arrivals: Sequence[Arrival]) -> list[Final]:
    """All finals, in order."""
    found = []
    running: dict[int, list[View]] = {}
    for event, seen in views(arrivals):
        if event["type"] == "partial":
            running.setdefault(event["segment"], []).append(seen)
            continue
        earlier = running.pop(event["segment"], [])
        words: list[Emission] = []
        place = 0
        for piece in _pieces(event):
            behind = place + len(piece.shown)
            shown, stable = _since(place, piece.shown, earlier), _stable(behind, earlier)
            words += [
                Emission(
                    word,
                    shown or seen.moment,
                    # Stable text that was changed was none.
                    max(stable or seen.moment, shown or seen.moment),
                    seen.moment,
                    piece.span,
                    piece.confidence,
                )
                for word in piece.spoken
            ]
            place = behind
        found.append(Final(tuple(words), event.get("confidence")))
    return found


def _pieces(event: Mapping[str, Any]) -> list[Piece]:
    """In the written form one piece may stand for several words, which have no times of their own then."""
    text: str = event["text"]
    words: Sequence[Mapping[str, Any]] = event.get("words") or ()
    if words and " ".join(word["word"] for word in words) == text:
        found = []
        for word in words:
            spoken = normalise(word.get("spoken", word["word"]))
            span = Span(word["start_ms"], word["end_ms"]) if len(spoken) == 1 else None
            found.append(Piece(word["word"].split(), spoken, span, word.get("confidence")))
        return found
    if "spoken" in event:
        return [Piece(text.split(), normalise(event["spoken"]))]
    return [Piece([word], normalise(word)) for word in text.split()]


def _since(place: int, words: list[str], earlier: Sequence[View]) -> Moment | None:
    first = None
    for seen in reversed(earlier):
        if seen.words[place : place + len(words)] != words:
            break
        first = seen.moment
    return first


def _stable(behind: int, earlier: Sequence[View]) -> Moment | None:
    return next((seen.moment for seen in earlier if seen.stable >= behind), None)


def _clock(arrivals: Sequence[Arrival]) -> list[int]:
    """The audio's clock at each event; one without it has that of the next one with it, which is no earlier."""
    clock = []
    later = next((arrival.event["audio_ms"] for arrival in reversed(arrivals) if "audio_ms" in arrival.event), 0)
    for arrival in reversed(arrivals):
        later = arrival.event.get("audio_ms", later)
        clock.append(later)
    return clock[::-1]
