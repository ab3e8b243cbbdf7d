"""A graph without the computations whose results depend only on the number of streams.

Exports of PyTorch compute sizes and positions again in every step. They are replaced by constants, and by numbers that
grow with the number of streams. These are not assumed to be right: a number of streams is computed together only after
a part of the original graph has computed all values for this number, and each was equal to its replacement.

Such a check takes as long as two steps. So it runs in another thread: for numbers of streams that come often, and for
all usual ones while nothing is computed. Batches of other sizes are computed in parts, which takes longer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from streamer.engine.public.sessions import Placement, graph_content, open_content, reason_not_taken, report_cpu
from streamer.models.batch_values import Linear, Value, ValuesGraph, replace_values, values_graph
from streamer.models.editable_graph import EditableGraph, Tensor
from streamer.models.onnx_file import ElementType, GraphFile, Port

_LOG: Final = logging.getLogger(__name__)
_SAMPLE_SIZES: Final = (1, 2, 3)  # the numbers of streams from which the formulas are made
# The numbers of streams that are checked when the graph is opened. With 1, any batch can be divided into parts.
_FIRST_SIZES: Final = (1, 2, 4, 8)
# A number is checked when it comes for this time, so that checks take at most a quarter of the time of the steps.
_CHECK_AFTER: Final = 8
_USUAL_SIZES: Final = range(1, 33)  # as many as Triton gives to an instance at once
_IDLE_S: Final = 0.5  # if no step came for this time, nothing is computed
_RETRY_AFTER: Final = 1_000_000  # if the check of a number fails, it is repeated after this many steps with the number

Axes = Mapping[str, tuple[tuple[int, ...], int]]
"""The shape of each input for one stream, and the axis of the streams, by the name of the input."""

Trial = Callable[["BatchGraph"], list[NDArray[Any]]]
"""Computes a graph for several numbers of streams, and returns all its results."""


class BatchGraph:
    """A graph whose inputs always have these shapes. ModelFolderError if onnxruntime refuses it.

    In a trial, it must give the same bits as the whole graph. Otherwise the whole graph is computed, and the log says
    so. `placement` is the device that computes; None is the CPU, with all states in the memory of numpy.

    `alone`: each stream is computed by itself, and its inputs may have any length.
    """

    def __init__(
        self, graph: GraphFile, axes: Axes, trial: Trial, placement: Placement | None = None, *, alone: bool = False
    ) -> None:
        self.placement, self.alone = placement, alone or bool(graph.alone)
        self._graph, self._axes = graph, axes
        self._values: BatchValues | None = None
        self._formulas: dict[str, Value] = {}
        self._checked: set[int] = set()
        self._unchecked: Counter[int] = Counter()  # how often each number came that is not checked
        self._checking = False
        self._last_step = float("-inf")
        content = graph_content(graph, placement)
        self._session: onnxruntime.InferenceSession | None = self._open(content)
        if self.alone:
            trial(self)
            return
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

    def sizes(self, streams: Sequence[int]) -> Sequence[int]:
        """Return those of these numbers of streams that the graph may compute at a time."""
        return [1] if self.alone else streams

    @property
    def checked(self) -> set[int]:
        """The numbers of streams that are computed in one part."""
        return set(self._checked)

    def session(self) -> onnxruntime.InferenceSession:
        """Return the session, which computes as many streams at a time as `parts` returns."""
        return self._session

    def parts(self, streams: int) -> list[int]:
        """Return how many streams to compute in each part of a batch with this many streams."""
        self._last_step = time.monotonic()
        if self.alone:
            return [1] * streams
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

    def check_ahead(self) -> None:
        """Check the usual numbers of streams before they come, in another thread, whenever no steps are computed."""
        if self._values is not None:
            threading.Thread(target=self._check_usual, args=(self._values,), daemon=True).start()

    def _check_usual(self, values: BatchValues) -> None:
        for streams in _USUAL_SIZES:
            while self._checking or time.monotonic() - self._last_step < _IDLE_S:
                time.sleep(_IDLE_S)
            if streams not in self._checked and self._unchecked[streams] >= 0:
                self._checking = True
                self._check(values, streams)

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
        self._session = self._open(graph_content(self._graph, self.placement))

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


# The values in a graph that depend only on the number of streams. onnxruntime computes them for a given number.

ELEMENTS: Final = {
    ElementType.FLOAT: np.float32,
    ElementType.INT32: np.int32,
    ElementType.INT64: np.int64,
    ElementType.BOOL: np.bool_,
    ElementType.FLOAT16: np.float16,
}
"""The types of numpy for the types of the elements of tensors."""

_TYPES: Final = {np.dtype(element): type_ for type_, element in ELEMENTS.items()}
_LARGEST: Final = 1 << 22  # bytes of a value; larger ones are computed in every step, so that they take no memory
_LONGEST: Final = 8  # the most numbers in a list whose numbers grow with the number of streams

Array = NDArray[Any]


class BatchValues:
    """Computes the values that depend only on the number of streams.

    `axes` has the shape of each input for one stream, and the axis of the streams.
    """

    def __init__(
        self,
        graph: ValuesGraph,
        axes: Mapping[str, tuple[tuple[int, ...], int]],
        open_session: Callable[[bytes], onnxruntime.InferenceSession],
    ) -> None:
        self._names, self._inputs, self._axes = graph.names, graph.fed, axes
        self._session = open_session(graph.content)

    def of(self, streams: int, names: Collection[str] | None = None) -> dict[str, Array]:
        """Return the values with these names, or all, for this many streams."""
        shapes = {port.name: self._shape(port, streams) for port in self._inputs}
        # Only the shapes are read. So all inputs share zeros, which take no memory as long as nobody writes to them.
        zeros = np.zeros(max((8 * int(np.prod(shape)) for shape in shapes.values()), default=0), np.uint8)
        feeds = {}
        for port in self._inputs:
            shape, element = shapes[port.name], np.dtype(ELEMENTS[port.type])
            feeds[port.name] = zeros[: int(np.prod(shape)) * element.itemsize].view(element).reshape(shape)
        chosen = self._names if names is None else [name for name in self._names if name in names]
        return dict(zip(chosen, map(np.asarray, self._session.run(chosen, feeds)), strict=True))

    def _shape(self, port: Port, streams: int) -> tuple[int, ...]:
        if port.name in self._axes:
            shape, axis = self._axes[port.name]
            return (*shape[:axis], streams, *shape[axis + 1 :])
        return tuple(int(size) for size in port.shape or ())


def formulas(values_by_number: Mapping[int, Mapping[str, Array]]) -> dict[str, Value]:
    """Return formulas for any number of streams, from values for some numbers. Leave out values without a formula."""
    return {
        name: formula
        for name in next(iter(values_by_number.values()))
        if (formula := _formula({streams: values[name] for streams, values in values_by_number.items()})) is not None
    }


def holds(formula: Value, streams: int, value: Array) -> bool:
    """Return whether the formula gives exactly this value for this many streams."""
    if isinstance(formula, Tensor):
        return formula == _tensor(value)
    expected = np.array([base + streams * each for base, each in zip(formula.base, formula.each, strict=True)])
    shape = () if formula.single else expected.shape
    return value.dtype == np.int64 and value.shape == shape and np.array_equal(value.reshape(-1), expected)


def _formula(values: Mapping[int, Array]) -> Value | None:
    (first, low), (second, high), *_ = values.items()
    formula: Value | None = None
    if low.dtype not in _TYPES or low.nbytes > _LARGEST:
        return None
    if low.dtype == np.int64 and low.shape == high.shape and low.ndim <= 1 and 0 < low.size <= _LONGEST:
        each: Sequence[int] = ((high - low) // (second - first)).reshape(-1).tolist()
        if any(each):
            base = [number - first * more for number, more in zip(low.reshape(-1).tolist(), each, strict=True)]
            formula = Linear(tuple(base), tuple(each), single=low.ndim == 0)
    formula = formula or _tensor(low)
    if formula is None:
        return None
    return formula if all(holds(formula, streams, value) for streams, value in values.items()) else None


def _tensor(value: Array) -> Tensor | None:
    type_ = _TYPES.get(value.dtype)
    return None if type_ is None else Tensor(type_, value.shape, value.tobytes())
