"""All ways in which a session can end: the last message, and the close of the connection after it. Pure.

Each error has a sentence that tells the client what was wrong and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamer.audio.decoder import AudioDecoder
from streamer.base.codes import ErrorCode, QuietEnding, Reason
from streamer.base.events import Error
from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.wire.errors import CloseCode, WireError, quote
from streamer.wire.options import Start

# After this time a refused client may try again.
RETRY_S = 5
# The codes of failures that are such refusals.
TRY_LATER = (ErrorCode.FULL, ErrorCode.NOT_READY, ErrorCode.SHUTTING_DOWN)


@dataclass(frozen=True)
class Close:
    """The code and the reason with which to close the connection."""

    code: CloseCode
    reason: str


@dataclass(frozen=True)
class Ending:
    """A code word, the close code, and the sentence of the error. Without a sentence the session is `done`."""

    code: Reason
    close_code: CloseCode
    message: str = ""
    reason: str = ""  # the reason of the close, if it is not the sentence
    unrecognised_ms: int | None = None  # audio that is in no final
    by_client: bool = False  # the client itself ended its audio

    @property
    def close(self) -> Close:
        """The close of the connection after this ending."""
        return Close(self.close_code, self.reason or self.message or self.code)

    @property
    def error(self) -> Error:
        """The last message, if the ending is an error."""
        assert isinstance(self.code, ErrorCode)
        return Error(self.code, self.message, fatal=True, unrecognised_ms=self.unrecognised_ms)


@dataclass(frozen=True)
class Outcome:
    """How the client's side ended, and how to close its connection, if there is one. There is no code before that."""

    code: Reason | None = None
    close: Close | None = None


DONE = Ending(QuietEnding.DONE, CloseCode.DONE, by_client=True)


def refused(code: ErrorCode, message: str, retry_s: int = RETRY_S) -> Ending:
    """Return the ending for a client that cannot have a session now. The close says when to try again."""
    return Ending(code, CloseCode.TRY_LATER, message, f"{code.replace('_', ' ')}: try again in {retry_s} s")


def misunderstood(error: WireError) -> Ending:
    """Return the ending after a message that is not valid."""
    return Ending(error.code, error.close_code, error.message)


def misplaced(message: str, expected: str, present: str, advice: str) -> Ending:
    """Return the ending after a message that came at the wrong time."""
    sentence = f"{message} is expected while the session is {expected}, but it is {present}: {advice}."
    return Ending(ErrorCode.UNEXPECTED, CloseCode.BAD_MESSAGE, sentence)


def misdirected(code: ErrorCode, message: str) -> Ending:
    """Return the ending for a client that wants to resume a session that is not available."""
    return Ending(code, CloseCode.BAD_MESSAGE, message)


def unknown_model(name: str, models: Iterable[str]) -> Ending:
    """Return the ending for a client that names a model that the service does not have."""
    message = f"There is no model {quote(name)} here, only {', '.join(models)}."
    return Ending(ErrorCode.UNKNOWN_MODEL, CloseCode.BAD_MESSAGE, message)


def bad_options(message: str) -> Ending:
    """Return the ending for options that the bridge has accepted and the model refuses."""
    return Ending(ErrorCode.BAD_OPTION, CloseCode.BAD_MESSAGE, f"The recogniser refused the options: {message}.")


def odd_bytes(decoder: AudioDecoder, start: Start) -> Ending:
    """Return the ending for audio that ended within a sample."""
    unit = "a sample" if start.channels == 1 else f"a sample of each of the {start.channels} channels"
    message = (
        f"The audio ended within a sample: {decoder.received_bytes} bytes came, but in {start.encoding} "
        f"{unit} has {decoder.frame_bytes} bytes. The incomplete sample was ignored; check whether a byte is missing."
    )
    return Ending(ErrorCode.ODD_BYTES, CloseCode.BAD_MESSAGE, message, by_client=True)


def too_fast(mark: int) -> Ending:
    """Return the ending for a live client of whose audio more than `mark` bytes wait for the model."""
    message = (
        f"More than {mark // BYTES_PER_S} s of live audio are waiting to be recognised; "
        "open a new session, without 'live' if it is a recording."
    )
    return Ending(ErrorCode.TOO_FAST, CloseCode.TOO_FAST, message)


def too_slow(behind_s: float, rest_ms: int) -> Ending:
    """Return the ending for a live client whose audio waits because the model has too much to do."""
    return failed(f"The recogniser has been too busy for {behind_s:g} s", rest_ms)


def no_start(limit_s: float) -> Ending:
    """Return the ending for a client that did not send `start` in time."""
    message = f'No \'start\' came within {limit_s:g} s; send {{"type":"start"}} after connecting.'
    return Ending(ErrorCode.NO_START, CloseCode.IDLE, message)


def loading(limit_s: float) -> Ending:
    """Return the ending for a session whose model was not loaded in time."""
    message = f"The model is still being loaded after {limit_s:g} s; try again in a few seconds."
    return refused(ErrorCode.NOT_READY, message)


def idle(limit_s: float) -> Ending:
    """Return the ending for a client that sent nothing for too long."""
    message = f'Nothing came for {limit_s:g} s; send {{"type":"keepalive"}} while there is no audio.'
    return Ending(ErrorCode.IDLE, CloseCode.IDLE, message)


def shutting_down() -> Ending:
    """Return the ending for a service that shuts down."""
    message = "The service is shutting down; everything heard is final."
    return Ending(ErrorCode.SHUTTING_DOWN, CloseCode.TRY_LATER, f"{message} Open a new session in {RETRY_S} s.")


def ended_by_operator() -> Ending:
    """Return the ending for a session that an operator of the service ends."""
    message = "An operator of the service has ended this session; everything heard is final."
    return Ending(ErrorCode.ENDED_BY_OPERATOR, CloseCode.REFUSED, message, "ended by an operator")


def exhausted(code: ErrorCode, message: str) -> Ending:
    """Return the ending for a caller that has used its quota."""
    return Ending(code, CloseCode.TRY_LATER, message)


def failed(failure: str, rest_ms: int) -> Ending:
    """Return the ending for a recogniser that failed for good. `rest_ms`: the audio that is in no final."""
    message = f"{failure}; the last {rest_ms} ms of audio were not recognised: open a new session and send them again."
    return Ending(ErrorCode.FAILED, CloseCode.FAILED, message, unrecognised_ms=rest_ms)


def not_read(limit_s: float) -> Close:
    """Return the close of the connection of a client that does not read."""
    return Close(CloseCode.IDLE, f"the client did not read its results for {limit_s:g} s")
