"""A model of Triton that reads whole segments with a public model. Any instance may read any segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from streamer.engine.adapters.instance import Instance
from streamer.engine.adapters.requests import BatchMetrics, array, text
from streamer.engine.loading_times import LOADING, loading_line
from streamer.engine.reader.reader import load_reader
from streamer.engine.reader.reading import USUAL, Reading, ReadingOptions
from streamer.models.readers import find_reader


class ReadsSegments(Protocol):
    """What the model needs of a reader."""

    def read(
        self,
        samples: NDArray[np.int16],
        pauses: Sequence[tuple[int, int]] = (),
        words: Sequence[str] = (),
        options: ReadingOptions = USUAL,
    ) -> Reading:
        """Read a segment at 16 kHz, and compare it with these words.

        `pauses`: the samples in it where it may be cut if it is too long.
        """


class TritonPythonModel:
    """An instance. Its configuration names the folder with the weights; otherwise it uses the best reader here."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the weights. If that fails, the model answers every request with the reason, and Triton goes on."""
        LOADING.mark("Python and libraries")
        instance = Instance(args)
        self._metrics = BatchMetrics(instance)
        self._reader: ReadsSegments | None = None
        self._reason = "there is no reader on this machine: `streamer models get moonshine-tiny` fetches one"
        try:
            self._reader = self.load(instance)
        except Exception as error:  # whatever is wrong with the folder
            self._reason = f"the reader cannot be used: {error}"
            pb_utils.Logger.log_error(self._reason)
        LOADING.mark("reader")
        pb_utils.Logger.log_info(loading_line(instance.name))

    def load(self, instance: Instance) -> ReadsSegments | None:
        """Return the reader of this instance; None if there is none on this machine."""
        folder = instance.bundle if instance.has_bundle else find_reader()
        return None if folder is None else load_reader(folder)

    def execute(self, requests: list[Any]) -> list[Any]:
        """Read the segments one by one."""
        with self._metrics.computing(requests):
            return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        if self._reader is None:
            return _failure(self._reason)
        try:
            samples = array(request, "AUDIO")
            pauses = pb_utils.get_input_tensor_by_name(request, "PAUSES")
            spans = [] if pauses is None else pauses.as_numpy().reshape(-1, 2).tolist()
            words = text(request, "WORDS").split()
            options = ReadingOptions.from_json(text(request, "OPTIONS") or "{}")
            reading = self._reader.read(samples, [(start, end) for start, end in spans], words, options)
        except Exception as error:  # an error in our code must not end the other segments of the batch
            return _failure(f"the segment could not be read: {error}")
        answer = np.array([[reading.as_json().encode()]], dtype=np.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("READING", answer)])


def _failure(reason: str) -> Any:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(reason))
