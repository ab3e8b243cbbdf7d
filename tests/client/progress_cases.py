"""Messages of a service and the events that a client must pass on, for the clients in both languages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
# At this point another session of the service goes on, at the earliest cut.
RESTART: Message = {"type": "RESTART"}
FAILURE: Message = {"type": "FAILURE"}  # and here the recogniser has failed
STEREO = {"channels": 2, "multichannel": True}


@dataclass(frozen=True)
class Case:
    """Messages, and what can be observed of the session afterwards. None is not checked."""

    name: str
    said: list[Message]
    options: dict[str, Any] = field(default_factory=dict)
    told: list[Message] | None = None
    released: list[Message] = field(default_factory=list)  # what is passed on later, if no other session goes on
    cuts: list[int] | None = None
    after: int | None = None
    failures: int = 0


def final(n: int, segment: int, start: int, end: int, heard: int, cut: int = 0, **more: Any) -> Message:
    """A final with one word."""
    word = {"word": "a", "start_ms": start, "end_ms": end, "confidence": 1}
    return {
        "type": "final",
        "n": n,
        "segment": segment,
        "text": "a",
        "start_ms": start,
        "end_ms": end,
        "audio_ms": heard,
        "words": [word],
        "cut_ms": cut or heard,
        **more,
    }


def abrupt(n: int, segment: int, start: int, end: int, heard: int, **more: Any) -> Message:
    """A final of a service that shuts down."""
    return final(n, segment, start, end, heard, **more, abrupt=True)


def partial(n: int, segment: int, start: int, heard: int, **more: Any) -> Message:
    """A partial."""
    said = {"type": "partial", "n": n, "segment": segment, "text": "b", "stable": 0}
    return {**said, "start_ms": start, "audio_ms": heard, **more}


def speech(n: int, state: str, at: int, **more: Any) -> Message:
    """Speech began or ended."""
    return {"type": "speech", "n": n, "state": state, "at_ms": at, **more}


def turn(n: int, state: str, segment: int, heard: int) -> Message:
    """What is said about a turn."""
    return {"type": "turn", "n": n, "state": state, "segment": segment, "probability": 0.75, "audio_ms": heard}


def head(n: int, at: int, **content: Any) -> Message:
    """What a head of the operator's own has found."""
    return {"type": "head", "n": n, "name": "keywords", "at_ms": at, "content": content}


def heard(n: int, ms: int) -> Message:
    """An acknowledgement."""
    return {"type": "heard", "n": n, "audio_ms": ms}


def flushed(n: int, ms: int) -> Message:
    """The answer to a flush."""
    return {"type": "flushed", "n": n, "audio_ms": ms}


def restarted(n: int, from_ms: int, segment: int, **more: Any) -> Message:
    """The client's own event."""
    return {"type": "restarted", "n": n, "from_ms": from_ms, "segment": segment, **more}


CASES = [
    Case(
        "times, segments and numbers go on: also the times of words, but not how long something took",
        [
            final(2, 0, 500, 3000, 4000, 3520),
            partial(3, 1, 4200, 4800),
            RESTART,
            partial(2, 0, 700, 1500),
            {"type": "recovered", "n": 3, "gap_ms": 123},
            final(4, 0, 700, 2000, 3000),
            flushed(5, 3000),
            RESTART,
            heard(2, 600),
        ],
        told=[
            final(2, 0, 500, 3000, 4000, 3520),
            partial(3, 1, 4200, 4800),
            restarted(4, 3520, 1),
            partial(5, 1, 4220, 5020),
            {"type": "recovered", "n": 6, "gap_ms": 123},
            final(7, 1, 4220, 5520, 6520),
            flushed(8, 6520),
            restarted(9, 6520, 2),
            heard(10, 7120),
        ],
        cuts=[6520],
        after=2,
    ),
    Case(
        "a message that comes again is not told again",
        [heard(2, 100), heard(3, 200), heard(2, 100), heard(3, 200), heard(4, 300)],
        told=[heard(2, 100), heard(3, 200), heard(4, 300)],
        after=4,
    ),
    Case(
        "a session that fails again and again gets nowhere, until there is a final",
        [heard(2, 100), FAILURE, RESTART, heard(2, 100), FAILURE, RESTART, heard(2, 100), RESTART],
        after=1,
        failures=2,
    ),
    Case("what follows a final begins at its cut", [final(2, 0, 500, 3000, 4000, 3520)], cuts=[3520]),
    Case(
        "what follows a flush begins there",
        [final(2, 0, 500, 3000, 3500, 3480), flushed(3, 3500)],
        cuts=[3500],
    ),
    Case("no segment reaches further back than the longest, and the lag", [heard(2, 60_000)], cuts=[30_000]),
    Case("the longest may be longer", [heard(2, 80_000)], {"endpoint": {"longest_ms": 60_000}}, cuts=[10_000]),
    Case("or the usual one", [heard(2, 60_000)], {"endpoint": "off"}, cuts=[30_000]),
    Case(
        "each channel has cuts of its own, and silence in one is not what another has heard",
        [
            heard(2, 20_000),
            final(3, 0, 500, 3000, 33_000, 3520, channel=1),
            partial(4, 1, 4000, 41_000, channel=1),
            final(5, 0, 25_000, 31_000, 32_000, 31_500, channel=0),
        ],
        STEREO,
        cuts=[31_500, 11_000],
    ),
    Case(
        "channels go on each with its own segments, one event for each",
        [
            final(2, 0, 500, 3000, 4000, 3520, channel=0),
            final(3, 0, 600, 1000, 2000, 1500, channel=1),
            final(4, 1, 1600, 3000, 5000, 4000, channel=1),
            RESTART,
            partial(2, 0, 700, 1500, channel=1),
            final(3, 0, 500, 900, 2000, 1800, channel=0),
            flushed(4, 2000),
        ],
        STEREO,
        told=[
            final(2, 0, 500, 3000, 4000, 3520, channel=0),
            final(3, 0, 600, 1000, 2000, 1500, channel=1),
            final(4, 1, 1600, 3000, 5000, 4000, channel=1),
            restarted(5, 3520, 1, channel=0),
            restarted(6, 4000, 2, channel=1),
            partial(7, 2, 4220, 5020, channel=1),
            final(8, 1, 4020, 4420, 5520, 5320, channel=0),
            flushed(9, 5520),
        ],
        cuts=[5520, 5520],
        after=4,
    ),
    Case(
        "what was said about a turn is not told again, but what is new of it",
        [
            final(2, 0, 500, 3000, 4000, 3520),
            turn(3, "eager", 1, 5000),
            RESTART,
            turn(2, "eager", 0, 1479),
            turn(3, "resumed", 0, 1800),
            turn(4, "end", 1, 1800),
        ],
        told=[
            final(2, 0, 500, 3000, 4000, 3520),
            turn(3, "eager", 1, 5000),
            restarted(4, 3520, 1),
            turn(5, "resumed", 1, 5320),
            turn(6, "end", 2, 5320),
        ],
    ),
    Case(
        "speech that began or ended is not told again; numbers have no gap for that",
        [
            final(2, 0, 500, 3000, 4000, 3520),
            speech(3, "start", 5000),
            speech(4, "end", 7000),
            speech(5, "start", 9000),
            RESTART,
            speech(2, "start", 1480),
            speech(3, "end", 3500),
            speech(4, "start", 5490),
            speech(5, "end", 8000),
            heard(6, 8500),
        ],
        told=[
            final(2, 0, 500, 3000, 4000, 3520),
            speech(3, "start", 5000),
            speech(4, "end", 7000),
            speech(5, "start", 9000),
            restarted(6, 3520, 1),
            speech(7, "end", 11_520),
            heard(8, 12_020),
        ],
        after=6,
    ),
    Case(
        "what a head has found is not told again, and nothing in it is changed",
        [
            final(2, 0, 500, 3000, 4000, 3520),
            head(3, 3600, end_ms=9),
            head(4, 5000),
            RESTART,
            head(2, 80),
            head(3, 1480),
            head(4, 1560, end_ms=9),
        ],
        told=[
            final(2, 0, 500, 3000, 4000, 3520),
            head(3, 3600, end_ms=9),
            head(4, 5000),
            restarted(5, 3520, 1),
            head(6, 5080, end_ms=9),
        ],
        after=4,
    ),
    Case(
        "what a service that shuts down has ended waits, with all that follows",
        [abrupt(2, 0, 500, 3950, 4000), speech(3, "end", 3950), heard(4, 4300)],
        told=[],
        released=[final(2, 0, 500, 3950, 4000), speech(3, "end", 3950), heard(4, 4300)],
        cuts=[0],
    ),
    Case(
        "also if a pause was between its last word and its end, in which the next word may have begun",
        [abrupt(2, 0, 500, 3000, 4000)],
        told=[],
        released=[final(2, 0, 500, 3000, 4000)],
    ),
    Case(
        "a new session recognises it again",
        [abrupt(2, 0, 500, 3950, 4000), speech(3, "end", 3950), RESTART, final(2, 0, 500, 3950, 5000)],
        told=[restarted(2, 0, 0), final(3, 0, 500, 3950, 5000)],
        cuts=[5000],
        after=2,
    ),
    Case(
        "what other channels say waits with it",
        [abrupt(2, 0, 500, 3950, 4000, channel=0), partial(3, 0, 1, 9000, channel=1), heard(4, 4000)],
        STEREO,
        told=[],
        released=[final(2, 0, 500, 3950, 4000, channel=0), partial(3, 0, 1, 9000, channel=1), heard(4, 4000)],
        cuts=[0, 0],
    ),
]
