"""The predictor and the joiner of a transducer, for any number of rows at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamer.engine.public.sessions import open_graph, reason_of
from streamer.models.layout import ContextTransducer, RecurrentTransducer
from streamer.models.model_folder import ModelFolderError
from streamer.models.onnx_file import GraphFile

BLANK = 0
_NOTHING = -1  # the number in the context before the first token, as the predictor was trained
UNKNOWN = "<unk>"

Context = tuple[int, ...]
"""The last tokens, which the predictor reads."""


Memory = list[NDArray[np.float32]]
"""The states of a predictor that is a recurrent network: each [layers, rows, numbers]."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """The prediction after some tokens, and what the predictor needs to go on: the last tokens, or its own states."""

    row: NDArray[np.float32]
    past: Context | Memory


class Predictor(Protocol):
    """The predictor and the joiner, as a search over several sequences of tokens uses them."""

    silent: frozenset[int]
    first: Prediction

    def read(self, before: Sequence[Prediction], tokens: Sequence[int]) -> list[Prediction]:
        """Return the predictions after one more token each."""

    def join(self, frames: Rows, predictions: Rows) -> Rows:
        """Return the scores of all tokens for each pair of a frame and a prediction."""


class RowGraph:
    """A graph for any number of rows at a time. The numbers of a row do not depend on the other rows."""

    def __init__(self, graph: GraphFile) -> None:
        self.inputs = [port.name for port in graph.inputs]
        self.outputs = [port.name for port in graph.outputs]
        self._session, self._alone = open_graph(graph), bool(graph.alone)

    def run(self, feeds: Mapping[str, RowsAlong], outputs: Mapping[str, int]) -> list[NDArray[Any]]:
        """Return these outputs, which are given with their axis of the rows, for these inputs."""
        [number] = {value.shape[axis] for value, axis in feeds.values()}
        if not self._alone:
            several = {name: never_one(value, axis) for name, (value, axis) in feeds.items()}
            found = zip(self._session.run(list(outputs), several), outputs.values(), strict=True)
            return [np.asarray(value)[(slice(None),) * axis + (slice(number),)] for value, axis in found]
        runs = [
            self._session.run(
                list(outputs), {name: value.take([row], axis=axis) for name, (value, axis) in feeds.items()}
            )
            for row in range(number)
        ]
        return [
            np.concatenate(values, axis=axis)
            for values, axis in zip(zip(*runs, strict=True), outputs.values(), strict=True)
        ]


RowsAlong = tuple[NDArray[Any], int]
"""The values of an input for several rows, and their axis."""


class TransducerGraphs:
    """Computes the predictor and the joiner. The numbers of a row do not depend on the other rows."""

    def __init__(self, tokens: Sequence[str], transducer: ContextTransducer) -> None:
        self.silent = frozenset({BLANK} | ({tokens.index(UNKNOWN)} if UNKNOWN in tokens else set()))
        """The tokens that write nothing and leave the context as it is."""
        self.start: Context = (*(_NOTHING,) * (transducer.context - 1), BLANK)
        """The context before the first token."""
        self._predictor, self._joiner = RowGraph(transducer.predictor), RowGraph(transducer.joiner)
        self._vocabulary = transducer.vocabulary
        self.started: NDArray[np.float32] = self.predict([self.start])[0]
        """The prediction for this context."""
        self.first = Prediction(self.started, self.start)

    def read(self, before: Sequence[Prediction], tokens: Sequence[int]) -> list[Prediction]:
        """Return the predictions after one more token each. Equal contexts are computed once."""
        contexts = [(*context_of(one)[1:], token) for one, token in zip(before, tokens, strict=True)]
        places = {context: place for place, context in enumerate(dict.fromkeys(contexts))}
        rows = self.predict(list(places))
        return [Prediction(rows[places[context]], context) for context in contexts]

    def predict(self, contexts: Sequence[Context]) -> Rows:
        """Return the predictions for these contexts."""
        [name], [output] = self._predictor.inputs, self._predictor.outputs
        [scores] = self._predictor.run({name: (np.array(contexts, dtype=np.int64), 0)}, {output: 0})
        return np.asarray(scores, dtype=np.float32)

    def join(self, frames: Rows, predictions: Rows) -> Rows:
        """Return the scores of all tokens for each pair of a frame and a prediction."""
        first, second = self._joiner.inputs
        [scores] = self._joiner.run({first: (frames, 0), second: (predictions, 0)}, {self._joiner.outputs[0]: 0})
        check_width(scores, self._vocabulary)
        return np.asarray(scores, dtype=np.float32)


def context_of(prediction: Prediction) -> Context:
    """Return the last tokens before this prediction."""
    assert isinstance(prediction.past, tuple)
    return prediction.past


# The predictor and the joiner of a transducer of NeMo, for any number of rows at a time.


class RecurrentGraphs:
    """Computes the predictor and the joiner. The numbers of a row do not depend on the other rows."""

    def __init__(self, transducer: RecurrentTransducer) -> None:
        self.blank = transducer.blank
        self.silent = frozenset({self.blank})
        self._predictor, self._joiner = RowGraph(transducer.predictor), RowGraph(transducer.joiner)
        self._states = transducer.states
        self._scores = transducer.vocabulary + transducer.durations
        self.vocabulary = transducer.vocabulary
        try:
            # The prediction before the first token, and the memory after it.
            self.started, self.fresh = self.predict([self.blank], self.memory(1))
        except Exception as error:  # the exceptions of onnxruntime have no common class
            raise ModelFolderError(
                f"{transducer.predictor.path} cannot compute several streams at a time: {reason_of(error)}"
            ) from error
        self.first = Prediction(self.started[0], self.fresh)

    def read(self, before: Sequence[Prediction], tokens: Sequence[int]) -> list[Prediction]:
        """Return the predictions after one more token each."""
        pasts = [memory_of(one) for one in before]
        memory = [
            np.concatenate(values, axis=state.axis)
            for state, values in zip(self._states, zip(*pasts, strict=True), strict=True)
        ]
        rows, after = self.predict(tokens, memory)
        # Copies, because a hypothesis may live for long, and should not keep the whole batch.
        return [
            Prediction(rows[place].copy(), [value[:, place : place + 1].copy() for value in after])
            for place in range(len(tokens))
        ]

    def memory(self, rows: int) -> Memory:
        """Return the memory of the predictor before it has read a token."""
        return [np.zeros((state.shape[0], rows, state.shape[2]), np.float32) for state in self._states]

    def predict(self, tokens: Sequence[int], memory: Memory) -> tuple[Rows, Memory]:
        """Return the predictions after these tokens, and the memory of the predictor after them."""
        token, count, *_ = self._predictor.inputs
        last = np.array(tokens, dtype=np.int32)[:, None]
        feeds: dict[str, RowsAlong] = {token: (last, 0), count: (np.ones(len(last), np.int32), 0)}
        for state, value in zip(self._states, memory, strict=True):
            feeds[state.input.name] = (value, state.axis)
        outputs = {self._predictor.outputs[0]: 0, **{state.output: state.axis for state in self._states}}
        scores, *after = self._predictor.run(feeds, outputs)
        return scores[:, :, 0], after

    def join(self, frames: Rows, predictions: Rows) -> Rows:
        """Return the scores for each pair of a frame and a prediction: of all tokens, and then of all durations."""
        first, second = self._joiner.inputs
        rows: dict[str, RowsAlong] = {first: (frames[:, :, None], 0), second: (predictions[:, :, None], 0)}
        [scores] = self._joiner.run(rows, {self._joiner.outputs[0]: 0})
        check_width(scores, self._scores)
        return np.asarray(scores[:, 0, 0], dtype=np.float32)


def memory_of(prediction: Prediction) -> Memory:
    """Return the states of the predictor after the tokens of this prediction."""
    assert isinstance(prediction.past, list)
    return prediction.past


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
