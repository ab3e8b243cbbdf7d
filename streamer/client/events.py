"""What a session tells, typed: `event["type"]` says which of these it is, for a program and for its type checker.

docs/reference/protocol.md has the meaning of each but `restarted`, which is the client's own. A service that is newer
may tell more: what is not known here is passed on.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class PartialWord(TypedDict):
    """A word that may still change."""

    word: str
    start_ms: int
    end_ms: int


class _Spoken(TypedDict, total=False):
    spoken: str  # with `written`: as it was said


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
    triton_model: str  # what serves it at present
    sample_rate: int
    from_sample: int


class _OfPartial(TypedDict, total=False):
    channel: int  # with `multichannel`
    words: list[PartialWord]  # with `partial_words`


class Partial(_OfPartial):
    """The words of the moment; the first `stable` characters stay."""

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
    alternatives: list[Alternative]  # where they were asked for


class Final(_OfFinal):
    """Words that change no more."""

    type: Literal["final"]
    n: int
    segment: int
    text: str
    start_ms: int
    end_ms: int
    audio_ms: int
    cut_ms: int  # what is heard from here on belongs to later segments
    confidence: float


class _OfSpeech(TypedDict, total=False):
    channel: int  # with `multichannel`


class Speech(_OfSpeech):
    """Somebody began or stopped speaking."""

    type: Literal["speech"]
    n: int
    state: Literal["start", "end"]
    at_ms: int


class Heard(TypedDict):
    """So much audio has been heard."""

    type: Literal["heard"]
    n: int
    audio_ms: int


class Flushed(TypedDict):
    """The answer to a flush."""

    type: Literal["flushed"]
    n: int
    audio_ms: int


class Recovered(TypedDict):
    """The recogniser had failed, and the session goes on."""

    type: Literal["recovered"]
    n: int
    gap_ms: int


class _OfRestarted(TypedDict, total=False):
    channel: int  # with `multichannel`


class Restarted(_OfRestarted):
    """The client's own: the service has forgotten the session, and another one goes on from there.

    Partials of this segment and later ones come anew.
    """

    type: Literal["restarted"]
    n: int
    from_ms: int
    segment: int


class Error(TypedDict):
    """A complaint after which the session goes on; what ends it is a SessionError."""

    type: Literal["error"]
    n: int
    code: str
    message: str
    fatal: bool


class Done(TypedDict):
    """The end: all of the audio has been heard."""

    type: Literal["done"]
    n: int
    audio_ms: int


Event = Ready | Partial | Final | Speech | Heard | Flushed | Recovered | Restarted | Error | Done
