"""A graph that is computed without what follows from the number of streams alone.

Exports of PyTorch compute sizes and positions anew in every step. They are replaced by constants, and by numbers that
grow with the streams. That these are right is not assumed: a part of the graph gives them for each number of streams
before it is computed for the first time, and each must be the same. If one is not, the whole graph is computed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from streamer.engine.graphs.batch_values import BatchValues, formulas, holds
from streamer.engine.graphs.placement import Placement, compute_on_cpu, not_taken
from streamer.engine.graphs.sessions import graph_content, open_content, open_graph
from streamer.graphs.onnx_file import GraphFile
from streamer.graphs.rewriting.batch_values import Value, replace_values, values_graph
from streamer.graphs.rewriting.editable_graph import EditableGraph

_LOG: Final = logging.getLogger(__name__)
_MEASURED: Final = (1, 2, 3)  # numbers of streams from which the formulas are made

Axes = Mapping[str, tuple[tuple[int, ...], int]]
"""The shapes of what is fed, by input: with 1 for the streams, and the axis that counts these."""

Trial = Callable[["BatchGraph"], list[NDArray[Any]]]
"""Computes a graph for several numbers of streams, and returns everything that it gave."""


class BatchGraph:
    """A graph that is always fed with shapes of these axes. ModelFolderError if onnxruntime refuses it.

    In a trial, it must give the same bits as the whole graph; otherwise that is computed, and the log says so.
    `placement` is the device where it is computed; None is the CPU, with everything in the memory of numpy.
    """

    def __init__(self, graph: GraphFile, axes: Axes, trial: Trial, placement: Placement | None = None) -> None:
        self.placement = placement
        self._graph, self._axes = graph, axes
        self._values: BatchValues | None = None
        self._formulas: dict[str, Value] = {}
        self._checked: set[int] = set()
        self._session: onnxruntime.InferenceSession | None = self._whole()
        expected = trial(self)
        self._session = None  # two of them would take twice the memory
        self._session = self._without_values() or self._whole()
        if self.shortened and not _same(trial(self), expected):
            self._give_up("it gives other numbers without them")

    @property
    def shortened(self) -> bool:
        """Whether values are replaced."""
        return self._values is not None

    def session(self, streams: int) -> onnxruntime.InferenceSession:
        """The session that computes so many streams."""
        if self._values is not None and streams not in self._checked:
            self._check(self._values, streams)
        return self._session

    def _check(self, values: BatchValues, streams: int) -> None:
        """Check once for each number of streams that the values are right."""
        found = values.of(streams, self._formulas)
        if all(holds(formula, streams, found[name]) for name, formula in self._formulas.items()):
            self._checked.add(streams)
        else:
            self._give_up(f"those for {streams} streams are others than expected")

    def _give_up(self, reason: str) -> None:
        """From now on, compute the whole graph."""
        _LOG.warning(
            "%s: sizes and positions are computed in every step, because %s. The words are the same, but a step takes "
            "longer.",
            *(self._graph.path, reason),
        )
        self._values = self._session = None
        self._session = self._whole()

    def _whole(self) -> onnxruntime.InferenceSession:
        session = open_graph(self._graph, self.placement)
        if self.placement is not None and not self.placement.taken_by(session):
            compute_on_cpu(not_taken())
            self.placement = None
        return session

    def _without_values(self) -> onnxruntime.InferenceSession | None:
        """The graph without what follows from the number of streams. None if there is nothing of that kind."""
        editable = EditableGraph(graph_content(self._graph))
        part = values_graph(editable, self._axes)
        if part is None:
            return None
        self._values = BatchValues(part, self._axes, lambda content: open_content(self._graph, content, once=True))
        found = formulas({streams: self._values.of(streams) for streams in _MEASURED})
        used = replace_values(editable, found, next((name, axis) for name, (_, axis) in self._axes.items()))
        self._formulas = {name: found[name] for name in used}
        return open_content(self._graph, editable.written(), self.placement)


def _same(found: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
