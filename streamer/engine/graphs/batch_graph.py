"""A graph that is computed without what follows from the number of streams alone.

Exports of PyTorch compute sizes and positions anew in every step. They are replaced by constants, and by numbers that
grow with the streams. That these are right is not assumed: a part of the graph gives them for each number of streams
before it is computed for the first time, and each must be the same. If one is not, the whole graph is computed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from streamer.engine.graphs.batch_values import BatchValues, formulas, holds
from streamer.engine.graphs.sessions import graph_content, open_content, open_graph
from streamer.graphs.onnx_file import GraphFile
from streamer.graphs.rewriting.batch_values import Value, replace_values, values_graph
from streamer.graphs.rewriting.editable_graph import EditableGraph

_LOG: Final = logging.getLogger(__name__)
_MEASURED: Final = (1, 2, 3)  # numbers of streams from which the formulas are made

Array = NDArray[Any]
Axes = Mapping[str, tuple[tuple[int, ...], int]]
"""The shapes of what is fed, by input: with 1 for the streams, and the axis that counts these."""


class Computes(Protocol):
    """A graph that can be computed."""

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Any]:
        """What the graph gives for these inputs."""


Trial = Callable[[Computes], list[Array]]
"""Computes a graph for several numbers of streams, and returns everything that it gave."""


def open_for_batches(graph: GraphFile, axes: Axes, trial: Trial) -> Computes:
    """Open a graph that is always fed with these shapes. ModelFolderError if onnxruntime refuses it.

    In a trial, it must give the same bits as the whole graph; otherwise that is used, and the log says so.
    """
    expected = trial(open_graph(graph))  # and it is closed: two of them would take twice the memory
    shorter = _shortened(graph, axes)
    if shorter is None:
        return open_graph(graph)
    found = BatchGraph(graph, *shorter, axes)
    if not _same(trial(found), expected):
        found.give_up("it gives other numbers without them")
    return found


class BatchGraph:
    """A graph in which values are replaced. It computes the whole graph where they cannot be."""

    def __init__(
        self, graph: GraphFile, content: bytes, values: BatchValues, formulas_: Mapping[str, Value], axes: Axes
    ) -> None:
        self._graph, self._formulas, self._axes = graph, formulas_, axes
        self._values: BatchValues | None = values
        self._session: onnxruntime.InferenceSession = open_content(graph, content)
        self._checked: set[int] = set()

    @property
    def shortened(self) -> bool:
        """Whether the values are replaced."""
        return self._values is not None

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Any]:
        """What the graph gives for these inputs."""
        name, (_, axis) = next(iter(self._axes.items()))
        streams = feeds[name].shape[axis]
        if self._values is not None and streams not in self._checked:
            self._check(self._values, streams)
        return list(self._session.run(outputs, feeds))

    def give_up(self, reason: str) -> None:
        """From now on, compute the whole graph."""
        _LOG.warning(
            "%s: sizes and positions are computed in every step, because %s. Its words are the same, but it takes "
            "longer.",
            *(self._graph.path, reason),
        )
        self._values = None
        del self._session
        self._session = open_graph(self._graph)

    def _check(self, values: BatchValues, streams: int) -> None:
        """Check once for each number of streams that the values are right."""
        found = values.of(streams, self._formulas)
        if all(holds(formula, streams, found[name]) for name, formula in self._formulas.items()):
            self._checked.add(streams)
        else:
            self.give_up(f"those for {streams} streams do not follow from the number of streams as expected")


def _shortened(graph: GraphFile, axes: Axes) -> tuple[bytes, BatchValues, dict[str, Value]] | None:
    """The graph without what follows from the number of streams, what computes that, and what it was replaced by."""
    editable = EditableGraph(graph_content(graph))
    part = values_graph(editable, axes)
    if part is None:
        return None
    values = BatchValues(part, axes, lambda content: open_content(graph, content, once=True))
    found = formulas({streams: values.of(streams) for streams in _MEASURED})
    used = replace_values(editable, found, next((name, axis) for name, (_, axis) in axes.items()))
    return editable.written(), values, {name: found[name] for name in used}


def _same(found: Sequence[Array], expected: Sequence[Array]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
