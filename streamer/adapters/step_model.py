"""A model of Triton that is a step of an ensemble. It gives requests to a part, such as a head, and answers at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from streamer.adapters.instance import Instance
from streamer.adapters.metrics import InstanceMetrics
from streamer.engine.open_streams import OpenStreams


class StepModel(ABC):
    """An instance of a step that keeps a state for each stream.

    A request that fails still gets a response. Its passage takes the failure to the later steps, so that all of them
    get the START and END of every stream. Only the last step reports the failure to the client.
    """

    @abstractmethod
    def load(self, instance: Instance) -> OpenStreams[Any]:
        """Load the part, and return its streams."""

    @abstractmethod
    def compute(self, requests: Sequence[Any]) -> list[dict[str, Any]]:
        """Compute a batch. Return the outputs of each request by name: an array or a text."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the part."""
        instance = Instance(args)
        self._streams = self.load(instance)
        self._metrics = InstanceMetrics(instance)

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer every request."""
        with self._metrics.computing(requests):
            responses = [
                pb_utils.InferenceResponse([_tensor(name, value) for name, value in outputs.items()])
                for outputs in self.compute(requests)
            ]
        self._streams.expire()
        self._metrics.streams(self._streams.live, self._streams.expired)
        return responses


def _tensor(name: str, value: Any) -> Any:
    array = np.array([value.encode()], dtype=np.object_) if isinstance(value, str) else value
    return pb_utils.Tensor(name, array[None])
