"""Why a request to a model was not answered: the code words of our model, and of the link to it."""

from __future__ import annotations

from enum import Enum


class FailureCode(str, Enum):
    """Models of others may have further words."""

    # Of the link.
    UNAVAILABLE = "unavailable"  # no Triton, or no model in it
    OVERDUE = "overdue"  # no answer in time
    OVER = "over"  # the sequence was ended
    BUSY = "busy"  # its last request is not answered yet
    REFUSED = "refused"  # all else
    # Of both.
    FULL = "full"  # no room now
    UNKNOWN_STREAM = "unknown_stream"  # the sequence is not known, or not any more
    FAILED = "failed"  # the model broke while computing it, or its answer cannot be read
    # Of the model: the sequence is not concerned.
    BAD_OPTIONS = "bad_options"
    BAD_REQUEST = "bad_request"
    BUSY_STREAM = "busy_stream"
    TOO_LONG = "too_long"
