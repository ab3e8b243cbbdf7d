"""Why a request to a model failed: the code words of our model, and those of the link to it."""

from __future__ import annotations

from enum import Enum


class FailureCode(str, Enum):
    """A code word for a failed request. Third-party models may use others."""

    # From the link:
    UNAVAILABLE = "unavailable"  # no Triton answers, or it does not have the model ready
    OVERDUE = "overdue"  # no answer in time
    OVER = "over"  # the sequence has already ended
    BUSY = "busy"  # its last request has no answer yet
    REFUSED = "refused"  # any other reason
    # From either:
    FULL = "full"  # no free slot now
    UNKNOWN_STREAM = "unknown_stream"  # the sequence is unknown, or no longer known
    FAILED = "failed"  # the model failed on this request, or its answer cannot be read
    # From the model, which keeps the sequence:
    BAD_OPTIONS = "bad_options"
    BAD_REQUEST = "bad_request"
    BUSY_STREAM = "busy_stream"
    TOO_LONG = "too_long"
