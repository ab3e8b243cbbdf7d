"""The code words of failed requests to a model: those of our own model, and those of the link to Triton."""

from __future__ import annotations

from enum import Enum


class FailureCode(str, Enum):
    """A code word for a failed request. Third-party models may use others."""

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
