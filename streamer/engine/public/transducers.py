"""The predictor and the joiner of a transducer, for any number of rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from streamer.engine.public.sessions import open_graph, reason_of
from streamer.models.layout import ContextTransducer, RecurrentTransducer
from streamer.models.model_folder import ModelFolderError

BLANK = 0
_NOTHING = -1  # the number in the context before the first token, as the predictor was trained
UNKNOWN = "<unk>"

Context = tuple[int, ...]
"""The last tokens, which the predictor reads."""


class TransducerGraphs:
    """Computes the predictor and the joiner. The numbers of a row do not depend on the other rows."""

    def __init__(self, tokens: Sequence[str], transducer: ContextTransducer) -> None:
        self.silent = frozenset({BLANK} | ({tokens.index(UNKNOWN)} if UNKNOWN in tokens else set()))
        """The tokens that write nothing and leave the context as it is."""
        self.start: Context = (*(_NOTHING,) * (transducer.context - 1), BLANK)
        """The context before the first token."""
        self._predictor, self._joiner = open_graph(transducer.predictor), open_graph(transducer.joiner)
        self._predictor_input = transducer.predictor.inputs[0].name
        self._joiner_inputs = [port.name for port in transducer.joiner.inputs]
        self._vocabulary = transducer.vocabulary
        self.started: NDArray[np.float32] = self.predict([self.start])[0]
        """The prediction for this context."""

    def predict(self, contexts: Sequence[Context]) -> Rows:
        """Return the predictions for these contexts."""
        rows = never_one(np.array(contexts, dtype=np.int64))
        (scores,) = self._predictor.run(None, {self._predictor_input: rows})
        return np.asarray(scores[: len(contexts)], dtype=np.float32)

    def join(self, frames: Rows, predictions: Rows) -> Rows:
        """Return the scores of all tokens for each pair of a frame and a prediction."""
        feeds = zip(self._joiner_inputs, (never_one(frames), never_one(predictions)), strict=True)
        (scores,) = self._joiner.run(None, dict(feeds))
        check_width(scores, self._vocabulary)
        return np.asarray(scores[: len(frames)], dtype=np.float32)


# The predictor and the joiner of a transducer of NeMo, for any number of rows at a time.

Memory = list[NDArray[np.float32]]
"""The states of the predictor: each [layers, rows, numbers]."""


class RecurrentGraphs:
    """Computes the predictor and the joiner. The numbers of a row do not depend on the other rows."""

    def __init__(self, transducer: RecurrentTransducer) -> None:
        self.blank = transducer.blank
        self._predictor, self._joiner = open_graph(transducer.predictor), open_graph(transducer.joiner)
        self._token, self._count = (port.name for port in transducer.predictor.inputs[:2])
        self._states = transducer.states
        self._joiner_inputs = [port.name for port in transducer.joiner.inputs]
        self._vocabulary = transducer.vocabulary
        first = transducer.predictor.outputs[0].name
        self._predictor_outputs = [first, *(state.output for state in self._states)]
        try:
            # The prediction before the first token, and the memory after it.
            self.started, self.fresh = self.predict([self.blank], self.memory(1))
        except Exception as error:  # the exceptions of onnxruntime have no common class
            raise ModelFolderError(
                f"{transducer.predictor.path} cannot compute several streams at a time: {reason_of(error)}"
            ) from error

    def memory(self, rows: int) -> Memory:
        """Return the memory of the predictor before it has read a token."""
        return [np.zeros((state.shape[0], rows, state.shape[2]), np.float32) for state in self._states]

    def predict(self, tokens: Sequence[int], memory: Memory) -> tuple[Rows, Memory]:
        """Return the predictions after these tokens, and the memory of the predictor after them."""
        last = never_one(np.array(tokens, dtype=np.int32)[:, None])
        feeds: dict[str, NDArray[np.generic]] = {self._token: last, self._count: np.ones(len(last), np.int32)}
        for state, value in zip(self._states, memory, strict=True):
            feeds[state.input.name] = never_one(value, state.axis)
        scores, *after = self._predictor.run(self._predictor_outputs, feeds)
        number = len(tokens)
        return scores[:number, :, 0], [value[:, :number] for value in after]

    def join(self, frames: Rows, predictions: Rows) -> Rows:
        """Return the scores of all tokens for each pair of a frame and a prediction."""
        rows = (never_one(frames)[:, :, None], never_one(predictions)[:, :, None])
        (scores,) = self._joiner.run(None, dict(zip(self._joiner_inputs, rows, strict=True)))
        check_width(scores, self._vocabulary)
        return np.asarray(scores[: len(frames), 0, 0], dtype=np.float32)


# Rows of a batch whose results in onnxruntime do not depend on the other rows.

Rows = NDArray[np.float32]
"""One row of numbers for each of several frames, predictions or tokens."""
Number = TypeVar("Number", bound=np.generic)


def never_one(rows: NDArray[Number], axis: int = 0) -> NDArray[Number]:
    """Return a single row twice, because onnxruntime computes one row differently from several. Return others as is."""
    return np.repeat(rows, 2, axis=axis) if rows.shape[axis] == 1 else rows


def check_width(scores: NDArray[np.generic], vocabulary: int) -> None:
    """Raise ValueError if there is not one score for each token: a graph need not do what it says about itself."""
    if scores.shape[-1] != vocabulary:
        raise ValueError(f"the graph gave {scores.shape[-1]} scores, and the model has {vocabulary} tokens")


def log_prob(logits: Rows, number: int) -> float:
    """Return the log-probability of a token, from the scores of all tokens."""
    highest = logits.max()
    return float(logits[number] - highest - np.log(np.exp(logits - highest).sum()))
