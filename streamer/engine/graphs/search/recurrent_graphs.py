"""The predictor and the joiner of a transducer of NeMo, for as many rows as the search has at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamer.engine.graphs.search.rows import Rows, never_one
from streamer.engine.graphs.sessions import open_graph
from streamer.graphs.model_folder import ModelFolderError
from streamer.graphs.transducer import RecurrentTransducer

Memory = list[NDArray[np.float32]]
"""The states of the predictor: each [layers, rows, numbers]."""


class RecurrentGraphs:
    """Computes the predictor and the joiner. A row gets the same numbers in any company."""

    def __init__(self, transducer: RecurrentTransducer) -> None:
        self.blank = transducer.blank
        self._predictor, self._joiner = open_graph(transducer.predictor), open_graph(transducer.joiner)
        self._token, self._count = (port.name for port in transducer.predictor.inputs[:2])
        self._states = transducer.states
        self._joiner_inputs = [port.name for port in transducer.joiner.inputs]
        first = transducer.predictor.outputs[0].name
        self._predictor_outputs = [first, *(state.output for state in self._states)]
        try:
            # What the predictor says before the first token, and its memory then.
            self.started, self.fresh = self.predicted([self.blank], self.memory(1))
        except Exception as error:  # those of onnxruntime have no common class
            reason = str(error).splitlines()[0][:300]
            path = transducer.predictor.path
            raise ModelFolderError(f"{path} cannot compute several streams at a time: {reason}") from error

    def memory(self, rows: int) -> Memory:
        """The memory of the predictor before it has read anything."""
        return [np.zeros((state.shape[0], rows, state.shape[2]), np.float32) for state in self._states]

    def predicted(self, tokens: Sequence[int], memory: Memory) -> tuple[Rows, Memory]:
        """What the predictor says after these tokens, and its memory then."""
        last = never_one(np.array(tokens, dtype=np.int32)[:, None])
        feeds: dict[str, NDArray[np.generic]] = {self._token: last, self._count: np.ones(len(last), np.int32)}
        for state, value in zip(self._states, memory, strict=True):
            feeds[state.input.name] = never_one(value, state.axis)
        found, *after = self._predictor.run(self._predictor_outputs, feeds)
        number = len(tokens)
        return found[:number, :, 0], [value[:, :number] for value in after]

    def joined(self, frames: Rows, predictions: Rows) -> Rows:
        """The scores of all tokens for each pair of a frame and a prediction."""
        rows = (never_one(frames)[:, :, None], never_one(predictions)[:, :, None])
        (found,) = self._joiner.run(None, dict(zip(self._joiner_inputs, rows, strict=True)))
        return np.asarray(found[: len(frames), 0, 0], dtype=np.float32)
