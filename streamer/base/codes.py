"""The code words of errors and endings, each declared once for the engine, the bridge and the client. Pure.

`docs/reference/protocol.md`, `docs/how-to/http.md`, `docs/how-to/python.md` and `docs/reference/triton.md` tell what
they mean; tests compare them with these. Other models and later services may use further words, so what reads a code
of another process takes any string.
"""

from __future__ import annotations

from enum import Enum


class Code(str, Enum):
    """A word for programs. Written into a text it is the word itself, in every version of Python."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, spec: str) -> str:
        return str.__format__(self, spec)


class FailureCode(Code):
    """Why a request to a model failed."""

    # The link sets these:
    UNAVAILABLE = "unavailable"  # Triton does not answer, or the model is not ready
    OVERDUE = "overdue"  # no answer came in time
    OVER = "over"  # the sequence has already ended
    BUSY = "busy"  # the sequence's previous request has no answer yet
    REFUSED = "refused"  # Triton refused the request for any other reason
    # Both the link and the model set these:
    FULL = "full"  # the model has no free slot now
    UNKNOWN_STREAM = "unknown_stream"  # the model does not know the sequence, or has forgotten it
    FAILED = "failed"  # the model failed on this request, or its answer cannot be read
    # The model sets these, and the sequence goes on:
    BAD_OPTIONS = "bad_options"
    BAD_REQUEST = "bad_request"
    BUSY_STREAM = "busy_stream"
    TOO_LONG = "too_long"


class ErrorCode(Code):
    """Why a client is refused, or its session or its request ends: what an error on the wire has as its code."""

    # The service cannot or may not serve the client now:
    UNAUTHORIZED = "unauthorized"
    BAD_ORIGIN = "bad_origin"
    FORBIDDEN = "forbidden"  # the key is not for this
    FULL = "full"
    BUSY = "busy"
    TOO_MANY_SESSIONS = "too_many_sessions"
    AUDIO_USED_UP = "audio_used_up"
    HOTWORDS_USED_UP = "hotwords_used_up"
    NOT_READY = "not_ready"
    SHUTTING_DOWN = "shutting_down"
    ENDED_BY_OPERATOR = "ended_by_operator"
    NO_SPEAKERS = "no_speakers"  # not fatal
    FAILED = "failed"
    INTERNAL = "internal"
    # A message or an option is wrong:
    BAD_JSON = "bad_json"
    BAD_MESSAGE = "bad_message"
    BAD_OPTION = "bad_option"
    UNKNOWN_MODEL = "unknown_model"
    UNKNOWN_OPTION = "unknown_option"
    UNKNOWN_TYPE = "unknown_type"
    UNSUPPORTED_AUDIO = "unsupported_audio"
    UNSUPPORTED = "unsupported"  # a client of another service wants what this one does not do
    SESSION_EXPIRED = "session_expired"  # a client of another service sent nothing for too long
    # A client of a websocket does something at the wrong time, or not in time:
    AFTER_STOP = "after_stop"
    BAD_RESUME = "bad_resume"
    IDLE = "idle"
    NO_START = "no_start"
    ODD_BYTES = "odd_bytes"
    TOO_FAST = "too_fast"
    UNEXPECTED = "unexpected"
    UNKNOWN_TOKEN = "unknown_token"
    # A request over plain HTTP is wrong, or its recording:
    BAD_FORM = "bad_form"
    BAD_HANDSHAKE = "bad_handshake"
    BAD_REQUEST = "bad_request"
    DAMAGED_AUDIO = "damaged_audio"
    HEAD_TOO_LARGE = "head_too_large"
    LATE_OPTION = "late_option"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NO_AUDIO = "no_audio"
    NOT_FOUND = "not_found"
    REMOTE_CONTENT = "remote_content"  # the recording at an address that the client named cannot be fetched
    TOO_COSTLY = "too_costly"
    TOO_LARGE = "too_large"
    TOO_LONG = "too_long"
    TOO_SLOW = "too_slow"
    UNKNOWN_FORMAT = "unknown_format"
    UPGRADE_REQUIRED = "upgrade_required"


class QuietEnding(Code):
    """How a session or an upload ends without an error that the client could read."""

    DONE = "done"
    VANISHED = "vanished"  # the client is gone
    NOT_READ = "not_read"  # the client does not read
    NOT_FETCHED = "not_fetched"  # more messages wait for a client without a connection than are kept
    NOT_UTF8 = "not_utf8"  # the client sent text that is none
    CUT_OFF = "cut_off"  # the service did not wait for its end
    RESUMED_ELSEWHERE = "resumed_elsewhere"  # the client goes on at another bridge


Reason = ErrorCode | QuietEnding
"""Why a session or an upload ended."""


class ClientCode(Code):
    """What our client itself finds wrong. Its errors have these codes, or those of the service."""

    AWAY = "away"  # nothing answers at the address
    BAD_ADDRESS = "bad_address"
    CLOSED = "closed"
    LOST = "lost"  # the connection
    LOST_AUDIO = "lost_audio"  # the service needs audio that is not kept any more
    NO_SERVICE = "no_service"  # another program answers
    NOT_UNDERSTOOD = "not_understood"  # it does not speak the protocol
    OVERDUE = "overdue"
    REFUSED = "refused"  # with a status of HTTP
    UNTRUSTED = "untrusted"  # its certificate
