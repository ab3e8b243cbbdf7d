"""The events of a session as types. `event["type"]` says which type one has, to a type checker too.

docs/reference/protocol.md explains them all except `restarted`, which comes from the client itself. A newer service may
send other events; the client passes them on.

`python scripts/docs/event_types.py` makes this file from `streamer/base/events.py`. Do not change it by hand.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class _PartialWordOptions(TypedDict, total=False):
    spoken: str  # with `written`: the word as it was spoken
    speaker: int  # with `speakers`: who says it, counted from 0


class PartialWord(_PartialWordOptions):
    """A word that may still change."""

    word: str
    start_ms: int
    end_ms: int


class Word(PartialWord):
    """A word of a final."""

    confidence: float


class Alternative(TypedDict):
    """Another possible text of a final."""

    text: str
    confidence: float  # its probability among the alternatives


class SpeakerTurn(TypedDict):
    """A time in which a speaker speaks."""

    start_ms: int
    end_ms: int
    speaker: int


class Ready(TypedDict):
    """The session is open, or it goes on after a lost connection."""

    type: Literal["ready"]
    n: int
    session: str
    token: str
    model: str  # the public name that the session asked for
    triton_model: str  # the Triton model that this name means at present
    sample_rate: int
    from_sample: int


class _PartialOptions(TypedDict, total=False):
    words: list[PartialWord]  # with `partial_words`
    channel: int  # with `multichannel`


class Partial(_PartialOptions):
    """The text of the running segment so far. Its first `stable` characters will not change."""

    type: Literal["partial"]
    n: int
    segment: int
    text: str
    stable: int
    start_ms: int
    audio_ms: int


class _FinalOptions(TypedDict, total=False):
    words: list[Word]  # unless `words` is off
    spoken: str  # with `written`: the text as it was spoken
    alternatives: list[Alternative]  # with `alternatives`
    channel: int  # with `multichannel`
    turn: float  # the probability that the turn was over, if the end of a turn ended the segment
    read_by: Literal["first_pass", "second_pass", "reader"]  # with `second_pass`: which pass has read the words
    speaker: int  # with `speakers`: who says most of its words
    language: str  # with `language` `"auto"`: what was spoken, such as `de`, if a reader found it out


class Final(_FinalOptions):
    """The text of a finished segment, which never changes."""

    type: Literal["final"]
    n: int
    segment: int
    text: str
    start_ms: int
    end_ms: int
    audio_ms: int
    confidence: float
    cut_ms: int  # audio from here on belongs to later segments


class _SpeechOptions(TypedDict, total=False):
    channel: int  # with `multichannel`


class Speech(_SpeechOptions):
    """Somebody began or stopped speaking."""

    type: Literal["speech"]
    n: int
    state: Literal["start", "end"]
    at_ms: int


class _TurnOptions(TypedDict, total=False):
    channel: int  # with `multichannel`


class Turn(_TurnOptions):
    """With `turns`: a turn is probably over, goes on after all, or is over."""

    type: Literal["turn"]
    n: int
    state: Literal["eager", "resumed", "end"]
    segment: int
    probability: float
    audio_ms: int


class _HeadEventOptions(TypedDict, total=False):
    channel: int  # with `multichannel`


class HeadEvent(_HeadEventOptions):
    """A result of a head that the operator has added to the model, such as a keyword."""

    type: Literal["head"]
    n: int
    name: str  # the name of the head
    at_ms: int
    content: dict[str, Any]


class Flushed(TypedDict):
    """The answer to a flush: everything up to here is final."""

    type: Literal["flushed"]
    n: int
    audio_ms: int


class Heard(TypedDict):
    """The length of the audio that has been recognised so far."""

    type: Literal["heard"]
    n: int
    audio_ms: int


class Recovered(TypedDict):
    """The session goes on after the recogniser failed."""

    type: Literal["recovered"]
    n: int
    gap_ms: int


class _SpeakerMergeOptions(TypedDict, total=False):
    channel: int  # with `multichannel`


class SpeakerMerge(_SpeakerMergeOptions):
    """With `speakers`: two speakers turned out to be one. All words so far of `speaker` are of `into`.

    This comes at most once in a channel, and `speaker` speaks no more.
    """

    type: Literal["speaker_merge"]
    n: int
    speaker: int
    into: int


class _SpeakersOptions(TypedDict, total=False):
    channel: int  # with `multichannel`


class Speakers(_SpeakersOptions):
    """With `speakers`, at the end of a recording: who speaks when, after a second look at the whole of it.

    It replaces the speakers in all finals: a word belongs to the turn in which most of it lies.
    """

    type: Literal["speakers"]
    n: int
    turns: list[SpeakerTurn]


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


class _RestartedOptions(TypedDict, total=False):
    channel: int  # with `multichannel`


class Restarted(_RestartedOptions):
    """The client itself sends this: the service has lost the session, and another one goes on from `from_ms`.

    Partials of this segment and of later ones come again.
    """

    type: Literal["restarted"]
    n: int
    from_ms: int
    segment: int


Event = (
    Ready
    | Partial
    | Final
    | Speech
    | Turn
    | HeadEvent
    | Flushed
    | Heard
    | Recovered
    | SpeakerMerge
    | Speakers
    | Error
    | Done
    | Restarted
)
