"""Reads the inputs of Triton's requests."""

from __future__ import annotations

import json
from typing import Any

import triton_python_backend_utils as pb_utils

from streamer.engine.stream_events import StreamError

START, END = 1, 2  # the flags of a request


def array(request: Any, name: str, *sizes: int) -> Any:
    """Return the array of an input without the axis of the batch. `sizes` are the sizes of its last axes."""
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().reshape(-1, *sizes)


def text(request: Any, name: str) -> str:
    """Return the text of an input with one string; "" if the request does not have the input."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return "" if tensor is None else tensor.as_numpy().reshape(-1)[0].decode()


def options_of(request: Any) -> dict[str, Any]:
    """Return the content of the input OPTIONS. StreamError if it is not a JSON object."""
    content = text(request, "OPTIONS")
    if not content:
        return {}
    try:
        options = json.loads(content)
    except ValueError as error:
        raise StreamError("bad_options", f"OPTIONS is not JSON: {error}") from None
    if not isinstance(options, dict):
        raise StreamError("bad_options", "OPTIONS must be a JSON object")
    return options


def texts(request: Any, name: str) -> list[str]:
    """Return the texts of an input with any number of strings; none if the request does not have the input."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return [] if tensor is None else [string.decode() for string in tensor.as_numpy().reshape(-1)]
