"""Reads Triton's requests."""

from __future__ import annotations

import json
from typing import Any

import triton_python_backend_utils as pb_utils

from streamer.engine.stream_events import StreamError

START, END = 1, 2  # the flags of a request


def array(request: Any, name: str, *sizes: int) -> Any:
    """The array of an input, with these sizes of its last axes instead of the axis of the batch."""
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().reshape(-1, *sizes)


def text(request: Any, name: str) -> str:
    """The text of an input of one string. Empty if the request does not have it."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return "" if tensor is None else tensor.as_numpy().reshape(-1)[0].decode()


def options_of(request: Any) -> dict[str, Any]:
    """The input OPTIONS. StreamError if it is not a JSON object."""
    given = text(request, "OPTIONS")
    if not given:
        return {}
    try:
        options = json.loads(given)
    except ValueError as error:
        raise StreamError("bad_options", f"OPTIONS is not JSON: {error}") from None
    if not isinstance(options, dict):
        raise StreamError("bad_options", "OPTIONS must be a JSON object")
    return options


def texts(request: Any, name: str) -> list[str]:
    """The texts of an input of any number of strings. Empty if the request does not have it."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return [] if tensor is None else [each.decode() for each in tensor.as_numpy().reshape(-1)]
