"""A graph that is computed without what follows from the number of streams alone.

Exports of PyTorch compute sizes and positions anew in every step. They are replaced by constants, and by numbers that
grow with the streams. That these are right is not assumed: so many streams are computed together only after a part of
the graph gave all values for their number, and each was the same.

That takes as long as two steps. So it is done beside the steps, and for numbers of streams that come often. Other
batches are computed in parts.
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
from streamer.engine.graphs.placement import Placement, not_taken, report_cpu
from streamer.engine.graphs.sessions import graph_content, open_content
from streamer.graphs.onnx_file import GraphFile
from streamer.graphs.rewriting.batch_values import Value, replace_values, values_graph
from streamer.graphs.rewriting.editable_graph import EditableGraph

_LOG: Final = logging.getLogger(__name__)
_MEASURED: Final = (1, 2, 3)  # numbers of streams from which the formulas are made
_AT_ONCE: Final = (1, 2, 4, 8)  # are checked when the graph is opened; with 1, any batch can be divided into parts
_OFTEN: Final = 8  # a number is checked when it comes for this time, so that checks take at most a quarter of the steps
_LONG: Final = 1_000_000  # if the check of a number fails, the next one is after so many steps with this number

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
        self._asked: Counter[int] = Counter()  # how often numbers came that are not checked
        self._checking = False
        content = graph_content(graph)
        self._session: onnxruntime.InferenceSession | None = self._opened(content)
        expected = trial(self)
        self._session = None  # two of them would take twice the memory
        content = self._without_values(content) or content
        self._session = self._opened(content)
        if self._values is not None:
            self._try(self._values, trial, expected)

    @property
    def shortened(self) -> bool:
        """Whether values are replaced."""
        return self._values is not None

    def session(self) -> onnxruntime.InferenceSession:
        """What computes, as many streams at a time as `parts` says."""
        return self._session

    def parts(self, streams: int) -> list[int]:
        """How many of so many streams to compute at a time, one part after the other."""
        if self._values is None or streams in self._checked:
            return [streams]
        self._asked[streams] += 1
        if self._asked[streams] >= _OFTEN and not self._checking:
            self._checking = True
            # A step must not wait for it. It may end with the process at any time.
            threading.Thread(target=self._check, args=(self._values, streams), daemon=True).start()
        found = []
        for size in sorted(self._checked, reverse=True):
            number, streams = divmod(streams, size)
            found += [size] * number
        return found

    def _check(self, values: BatchValues, streams: int) -> None:
        """Check the values for so many streams."""
        try:
            if self._holds(values, streams):
                self._checked.add(streams)
                return
            reason = "sizes or positions are others than expected"
        except Exception as error:  # those of onnxruntime have no common class
            reason = f"these could not be computed: {str(error)[:200]}"
        finally:
            self._checking = False
        self._asked[streams] = -_LONG
        _LOG.warning("%s: %d streams are computed in parts, because %s", self._graph.path, streams, reason)

    def _holds(self, values: BatchValues, streams: int) -> bool:
        """Whether the values for so many streams are right."""
        found = values.of(streams, self._formulas)
        return all(holds(formula, streams, found[name]) for name, formula in self._formulas.items())

    def _try(self, values: BatchValues, trial: Trial, expected: list[NDArray[Any]]) -> None:
        """Compute the whole graph instead if a value is wrong, or if the rewritten one gives other numbers."""
        wrong = [streams for streams in _AT_ONCE if not self._holds(values, streams)]
        if wrong:
            self._give_up(f"those for {wrong[0]} streams are others than expected")
        elif not _same(trial(self), expected):
            self._give_up("it gives other numbers without them")
        else:
            self._checked.update(_AT_ONCE)

    def _give_up(self, reason: str) -> None:
        """From now on, compute the whole graph."""
        _LOG.warning(
            "%s: sizes and positions are computed in every step, because %s. The words are the same, but a step takes "
            "longer.",
            *(self._graph.path, reason),
        )
        self._values = self._session = None
        self._session = self._opened(graph_content(self._graph))

    def _opened(self, content: bytes) -> onnxruntime.InferenceSession:
        """A session for this content, on the CPU if the device cannot be used."""
        session = open_content(self._graph, content, self.placement)
        if self.placement is not None and not self.placement.taken_by(session):
            report_cpu(not_taken())
            self.placement = None
        return session

    def _without_values(self, content: bytes) -> bytes | None:
        """The graph without what follows from the number of streams. None if there is nothing of that kind."""
        editable = EditableGraph(content)
        part = values_graph(editable, self._axes)
        if part is None:
            return None
        self._values = BatchValues(part, self._axes, lambda content: open_content(self._graph, content, once=True))
        found = formulas({streams: self._values.of(streams) for streams in _MEASURED})
        used = replace_values(editable, found, next((name, axis) for name, (_, axis) in self._axes.items()))
        self._formulas = {name: found[name] for name in used}
        return editable.written()


def _same(found: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
