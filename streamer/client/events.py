"""The events of a session as types: `event["type"]` says which one it is, for a program and for its type checker.

docs/reference/protocol.md explains each of them except `restarted`, which comes from the client itself. A newer service
may send other events; the client passes them on.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class PartialWord(TypedDict):
    """A word that may still change."""

    word: str
    start_ms: int
    end_ms: int


class _Spoken(TypedDict, total=False):
    spoken: str  # with `written`: the word as it was spoken


class Word(PartialWord, _Spoken):
    """A word of a final."""

    confidence: float


class Alternative(TypedDict):
    """A text that a final might have had."""

    text: str
    confidence: float


class Ready(TypedDict):
    """The session is open."""

    type: Literal["ready"]
    n: int
    session: str
    token: str
    model: str  # the public name that the session asked for
    triton_model: str  # the Triton model that serves it at present
    sample_rate: int
    from_sample: int


class _OfPartial(TypedDict, total=False):
    channel: int  # with `multichannel`
    words: list[PartialWord]  # with `partial_words`


class Partial(_OfPartial):
    """The text of the running segment so far. Its first `stable` characters will not change."""

    type: Literal["partial"]
    n: int
    segment: int
    text: str
    stable: int
    start_ms: int
    audio_ms: int


class _OfFinal(TypedDict, total=False):
    channel: int  # with `multichannel`
    words: list[Word]  # unless `words` is off
    spoken: str  # with `written`
    alternatives: list[Alternative]  # if they were asked for
    turn: float  # if the end of a turn ended the segment: how likely it was that the turn was over


class Final(_OfFinal):
    """The text of a finished segment, which never changes."""

    type: Literal["final"]
    n: int
    segment: int
    text: str
    start_ms: int
    end_ms: int
    audio_ms: int
    cut_ms: int  # audio from here on belongs to later segments
    confidence: float


class _OfSpeech(TypedDict, total=False):
    channel: int  # with `multichannel`


class Speech(_OfSpeech):
    """Somebody began or stopped speaking."""

    type: Literal["speech"]
    n: int
    state: Literal["start", "end"]
    at_ms: int


class _OfTurn(TypedDict, total=False):
    channel: int  # with `multichannel`


class Turn(_OfTurn):
    """With `turns`: a turn is probably over, goes on after all, or is over."""

    type: Literal["turn"]
    n: int
    state: Literal["eager", "resumed", "end"]
    segment: int
    probability: float
    audio_ms: int


class _OfHead(TypedDict, total=False):
    channel: int  # with `multichannel`


class HeadEvent(_OfHead):
    """What a head of the operator's own found, such as a keyword."""

    type: Literal["head"]
    n: int
    name: str  # of the head
    at_ms: int
    content: dict[str, Any]


class Heard(TypedDict):
    """How much audio has been recognised so far."""

    type: Literal["heard"]
    n: int
    audio_ms: int


class Flushed(TypedDict):
    """The answer to a flush."""

    type: Literal["flushed"]
    n: int
    audio_ms: int


class Recovered(TypedDict):
    """The session goes on after the recogniser failed."""

    type: Literal["recovered"]
    n: int
    gap_ms: int


class _OfRestarted(TypedDict, total=False):
    channel: int  # with `multichannel`


class Restarted(_OfRestarted):
    """From the client itself: the service has lost the session, and another one goes on from `from_ms`.

    Partials of this segment and of later ones are sent again.
    """

    type: Literal["restarted"]
    n: int
    from_ms: int
    segment: int


class Error(TypedDict):
    """An error after which the session goes on. An error that ends it is a SessionError."""

    type: Literal["error"]
    n: int
    code: str
    message: str
    fatal: bool


class Done(TypedDict):
    """The end: all of the audio has been recognised."""

    type: Literal["done"]
    n: int
    audio_ms: int


Event = Ready | Partial | Final | Speech | Turn | HeadEvent | Heard | Flushed | Recovered | Restarted | Error | Done
