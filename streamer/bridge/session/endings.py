"""How a session can end: what is said last, and how the connection is closed after it. Pure.

Each ending is made here, with the sentence that tells a client what was wrong and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamer.audio.decoder import AudioDecoder
from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.wire.errors import CloseCode, WireError, shown
from streamer.wire.events import Error
from streamer.wire.options import Start

# What a refused client is told to wait before it tries again, and the failures that are such refusals.
RETRY_S = 5
TRY_LATER = ("full", "not_ready", "shutting_down")
# How a session can end without a word: its client is gone, or does not read.
VANISHED = "vanished"
NOT_READ = "not_read"


@dataclass(frozen=True)
class Close:
    """How the connection is to be closed."""

    code: CloseCode
    reason: str


@dataclass(frozen=True)
class Ending:
    """A code word, the close code, and the sentence of the error; without one the session is `done`."""

    code: str
    close_code: CloseCode
    message: str = ""
    reason: str = ""  # of the close, if it is not the sentence
    unrecognised_ms: int | None = None  # audio that is in no final
    by_client: bool = False  # it said itself that no more audio comes

    @property
    def close(self) -> Close:
        """How the connection is closed then."""
        return Close(self.close_code, self.reason or self.message or self.code)

    @property
    def error(self) -> Error:
        """What is said last, where something was wrong."""
        return Error(self.code, self.message, fatal=True, unrecognised_ms=self.unrecognised_ms)


@dataclass(frozen=True)
class Outcome:
    """How the client's side ended, and how its connection is closed if it is there; without a code it has not ended."""

    code: str = ""
    close: Close | None = None


DONE = Ending("done", CloseCode.DONE, by_client=True)


def refused(code: str, message: str, retry_s: int = RETRY_S) -> Ending:
    """No session is to be had at present; the close says when to try again."""
    return Ending(code, CloseCode.TRY_LATER, message, f"{code.replace('_', ' ')}: try again in {retry_s} s")


def misunderstood(error: WireError) -> Ending:
    """A message of the client that cannot be served."""
    return Ending(error.code, error.close_code, error.message)


def misplaced(what: str, expected: str, met: str, advice: str) -> Ending:
    """A message at the wrong time."""
    message = f"{what} is expected when the session is {expected}; it is {met}: {advice}."
    return Ending("unexpected", CloseCode.BAD_MESSAGE, message)


def misdirected(code: str, message: str) -> Ending:
    """The session that it wants to resume is not to be had."""
    return Ending(code, CloseCode.BAD_MESSAGE, message)


def unknown_model(name: str, known: Iterable[str]) -> Ending:
    """The service has no model of this public name."""
    message = f"There is no model {shown(name)} here; there are {', '.join(known)}."
    return Ending("unknown_model", CloseCode.BAD_MESSAGE, message)


def bad_options(message: str) -> Ending:
    """The model knows better than the wire what it can do."""
    return Ending("bad_option", CloseCode.BAD_MESSAGE, f"The recogniser refused the options: {message}")


def odd_bytes(decoder: AudioDecoder, start: Start) -> Ending:
    """The audio ended within a sample."""
    whole = "a sample" if start.channels == 1 else f"a sample of each of the {start.channels} channels"
    message = (
        f"The audio ended within a sample: {decoder.received} bytes came, but in {start.encoding} "
        f"{whole} has {decoder.frame_bytes} bytes. The rest was left out; is a byte missing somewhere?"
    )
    return Ending("odd_bytes", CloseCode.BAD_MESSAGE, message, by_client=True)


def too_fast(mark: int) -> Ending:
    """Live audio that is further ahead of the model than it may be, in bytes."""
    message = (
        f"More than {mark // BYTES_PER_S} s of live audio wait to be recognised; "
        "open a new session, without 'live' if it is a recording."
    )
    return Ending("too_fast", CloseCode.TOO_FAST, message)


def no_start(limit_s: float) -> Ending:
    """Nothing was started."""
    message = f'Nothing was started within {limit_s:g} s; send {{"type":"start"}} after connecting.'
    return Ending("no_start", CloseCode.IDLE, message)


def idle(limit_s: float) -> Ending:
    """Nothing came any more."""
    message = f'Nothing came for {limit_s:g} s; while there is no audio send {{"type":"keepalive"}}.'
    return Ending("idle", CloseCode.IDLE, message)


def shutting_down() -> Ending:
    """The service ends, and the session before it."""
    message = "The service is shutting down; everything heard is final."
    return Ending("shutting_down", CloseCode.TRY_LATER, f"{message} Open a new session in {RETRY_S} s.")


def exhausted(code: str, message: str) -> Ending:
    """The caller has had its share."""
    return Ending(code, CloseCode.TRY_LATER, message)


def failed(what: str, rest_ms: int) -> Ending:
    """The recogniser failed for good; so much audio is in no final."""
    message = f"{what}; the last {rest_ms} ms of audio are not recognised: open a new session and send them again."
    return Ending("failed", CloseCode.FAILED, message, unrecognised_ms=rest_ms)


def not_read(limit_s: float) -> Close:
    """Nothing can be said any more to a client that does not read."""
    return Close(CloseCode.IDLE, f"the results were not read for {limit_s:g} s")
