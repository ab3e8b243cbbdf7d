"""The values in a graph that depend only on the number of streams. onnxruntime computes them for a given number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from streamer.graphs.onnx_file import ElementType, Port
from streamer.graphs.rewriting.batch_values import Linear, Value, ValuesGraph
from streamer.graphs.rewriting.editable_graph import Tensor

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
