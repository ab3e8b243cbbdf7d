"""Gives each head its own copy of the outputs of the encoder: an output `X_FOR_Y` is the input `X` for the head Y."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import triton_python_backend_utils as pb_utils

from streamer.engine.adapters.instance import Instance
from streamer.engine.adapters.requests import BatchMetrics


class TritonPythonModel:
    """One instance. It keeps nothing of any stream."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read the names of the outputs."""
        self._metrics = BatchMetrics(Instance(args))
        self._outputs = [output["name"] for output in json.loads(args["model_config"])["output"]]

    def execute(self, requests: list[Any]) -> list[Any]:
        """Copy the inputs of every request."""
        with self._metrics.computing(requests):
            return [
                pb_utils.InferenceResponse([_copy(request, name) for name in self._outputs]) for request in requests
            ]


def _copy(request: Any, name: str) -> Any:
    tensor = pb_utils.get_input_tensor_by_name(request, name.partition("_FOR_")[0])
    return pb_utils.Tensor(name, tensor.as_numpy())
