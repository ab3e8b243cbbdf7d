"""A graph without the computations whose results depend only on the number of streams.

Exports of PyTorch compute sizes and positions again in every step. They are replaced by constants, and by numbers that
grow with the number of streams. These are not assumed to be right: a number of streams is computed together only after
a part of the original graph has computed all values for this number, and each was equal to its replacement.

Such a check takes as long as two steps. So it runs in another thread, and only for numbers of streams that come often.
Batches of other sizes are computed in parts.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from streamer.engine.graphs.batch_values import BatchValues, formulas, holds
from streamer.engine.graphs.placement import Placement, reason_not_taken, report_cpu
from streamer.engine.graphs.sessions import graph_content, open_content
from streamer.graphs.onnx_file import GraphFile
from streamer.graphs.rewriting.batch_values import Value, replace_values, values_graph
from streamer.graphs.rewriting.editable_graph import EditableGraph

_LOG: Final = logging.getLogger(__name__)
_SAMPLE_SIZES: Final = (1, 2, 3)  # the numbers of streams from which the formulas are made
# The numbers of streams that are checked when the graph is opened. With 1, any batch can be divided into parts.
_FIRST_SIZES: Final = (1, 2, 4, 8)
# A number is checked when it comes for this time, so that checks take at most a quarter of the time of the steps.
_CHECK_AFTER: Final = 8
_RETRY_AFTER: Final = 1_000_000  # if the check of a number fails, it is repeated after this many steps with the number

Axes = Mapping[str, tuple[tuple[int, ...], int]]
"""The shape of each input for one stream, and the axis of the streams, by the name of the input."""

Trial = Callable[["BatchGraph"], list[NDArray[Any]]]
"""Computes a graph for several numbers of streams, and returns all its results."""


class BatchGraph:
    """A graph whose inputs always have these shapes. ModelFolderError if onnxruntime refuses it.

    In a trial, it must give the same bits as the whole graph. Otherwise the whole graph is computed, and the log says
    so. `placement` is the device that computes; None is the CPU, with all states in the memory of numpy.
    """

    def __init__(self, graph: GraphFile, axes: Axes, trial: Trial, placement: Placement | None = None) -> None:
        self.placement = placement
        self._graph, self._axes = graph, axes
        self._values: BatchValues | None = None
        self._formulas: dict[str, Value] = {}
        self._checked: set[int] = set()
        self._unchecked: Counter[int] = Counter()  # how often each number came that is not checked
        self._checking = False
        content = graph_content(graph)
        self._session: onnxruntime.InferenceSession | None = self._open(content)
        expected = trial(self)
        self._session = None  # two sessions would take twice the memory
        content = self._without_values(content) or content
        self._session = self._open(content)
        if self._values is not None:
            self._try(self._values, trial, expected)

    @property
    def shortened(self) -> bool:
        """Whether values are replaced by constants and formulas."""
        return self._values is not None

    def session(self) -> onnxruntime.InferenceSession:
        """Return the session, which computes as many streams at a time as `parts` returns."""
        return self._session

    def parts(self, streams: int) -> list[int]:
        """Return how many streams to compute in each part of a batch with this many streams."""
        if self._values is None or streams in self._checked:
            return [streams]
        self._unchecked[streams] += 1
        if self._unchecked[streams] >= _CHECK_AFTER and not self._checking:
            self._checking = True
            # In another thread, because a step must not wait for it. The thread may end with the process at any time.
            threading.Thread(target=self._check, args=(self._values, streams), daemon=True).start()
        parts = []
        for size in sorted(self._checked, reverse=True):
            number, streams = divmod(streams, size)
            parts += [size] * number
        return parts

    def _check(self, values: BatchValues, streams: int) -> None:
        """Check the values for this many streams."""
        try:
            if self._holds(values, streams):
                self._checked.add(streams)
                return
            reason = "some sizes or positions are not as expected"
        except Exception as error:  # the exceptions of onnxruntime have no common class
            reason = f"the sizes and positions could not be computed: {str(error)[:200]}"
        finally:
            self._checking = False
        self._unchecked[streams] = -_RETRY_AFTER
        _LOG.warning("%s: %d streams are computed in parts, because %s", self._graph.path, streams, reason)

    def _holds(self, values: BatchValues, streams: int) -> bool:
        """Return whether the formulas are right for this many streams."""
        values_now = values.of(streams, self._formulas)
        return all(holds(formula, streams, values_now[name]) for name, formula in self._formulas.items())

    def _try(self, values: BatchValues, trial: Trial, expected: list[NDArray[Any]]) -> None:
        """Compute the whole graph from now on if a value is wrong, or if the rewritten graph gives other numbers."""
        failures = [streams for streams in _FIRST_SIZES if not self._holds(values, streams)]
        if failures:
            self._give_up(f"those for {failures[0]} streams are not as expected")
        elif not _same(trial(self), expected):
            self._give_up("the graph gives other numbers without them")
        else:
            self._checked.update(_FIRST_SIZES)

    def _give_up(self, reason: str) -> None:
        """Compute the whole graph from now on."""
        _LOG.warning(
            "%s: sizes and positions are computed in every step, because %s. The words are the same, but a step takes "
            "longer.",
            *(self._graph.path, reason),
        )
        self._values = self._session = None
        self._session = self._open(graph_content(self._graph))

    def _open(self, content: bytes) -> onnxruntime.InferenceSession:
        """Open a session for this content, on the CPU if the device cannot be used."""
        session = open_content(self._graph, content, self.placement)
        if self.placement is not None and not self.placement.taken_by(session):
            report_cpu(reason_not_taken())
            self.placement = None
        return session

    def _without_values(self, content: bytes) -> bytes | None:
        """Return the graph without the values that depend only on the number of streams; None if it has none."""
        editable = EditableGraph(content)
        part = values_graph(editable, self._axes)
        if part is None:
            return None
        self._values = BatchValues(part, self._axes, lambda content: open_content(self._graph, content, once=True))
        formulas_by_name = formulas({streams: self._values.of(streams) for streams in _SAMPLE_SIZES})
        used = replace_values(editable, formulas_by_name, next((name, axis) for name, (_, axis) in self._axes.items()))
        self._formulas = {name: formulas_by_name[name] for name in used}
        return editable.content()


def _same(results: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(results, expected, strict=True))
