"""The network of the punctuation model as a graph: a few convolutions over word vectors.

It has a fixed view back and ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamer.base.json_types import JsonObject
from streamer.engine.network_graphs import CompiledGraph, NetworkWriter, Origin
from streamer.models.onnx_file import ElementType

Floats = NDArray[np.float32]
MarkWeights = Mapping[str, NDArray[Any]]
"""The weights of the network, by the names that they have in `MarkNetwork`."""

# The bounds in milliseconds between the classes of pauses. Class 0 is an unknown pause.
PAUSE_BOUNDS = (60, 140, 240, 360, 520, 760)
PAUSES = len(PAUSE_BOUNDS) + 2
MARKS = 4
CASES = 3


@dataclass(frozen=True)
class NetworkShape:
    """The size of a network. `views` has, for each convolution, the places that it sees, relative to its own."""

    embedding: int = 96
    width: int = 160
    views: tuple[tuple[int, ...], ...] = (
        (-3, -2, -1, 0, 1),
        (-3, -2, -1, 0, 1),
        (-6, -4, -2, 0, 1),
        (-4, -3, -2, -1, 0),
    )

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> NetworkShape:
        """Read a shape from the values of `asdict` in JSON."""
        views = tuple(tuple(int(place) for place in view) for view in values["views"])
        if not views or not all(view and 0 in view for view in views):
            raise ValueError("every convolution must see its own place")
        return cls(int(values["embedding"]), int(values["width"]), views)

    def values(self) -> JsonObject:
        """Return the shape for JSON."""
        return asdict(self)

    @property
    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights of a network of this size."""
        sizes = [self.embedding] + [self.width] * len(self.views)
        shapes: dict[str, tuple[int, ...]] = {"pauses.weight": (PAUSES, self.embedding), "end": (self.embedding,)}
        for number, size in enumerate(sizes):
            shapes |= {f"norms.{number}.{name}": (size,) for name in ("weight", "bias")}
        for number, view in enumerate(self.views):
            shapes[f"convolutions.{number}.weight"] = self.width, sizes[number] * len(view)
            shapes[f"convolutions.{number}.bias"] = (self.width,)
        return shapes | {"judge.weight": (MARKS + CASES, self.width), "judge.bias": (MARKS + CASES,)}

    @property
    def behind(self) -> int:
        """The number of words before a word on which its answer depends."""
        return -sum(min(view) for view in self.views)

    @property
    def ahead(self) -> int:
        """The number of words after a word on which its answer depends."""
        return sum(max(view) for view in self.views)

    @property
    def gap(self) -> int:
        """The number of empty places that must lie between two texts, so that neither sees the other."""
        return max(max(-min(view), max(view)) for view in self.views)


def pause_number(pause_ms: int | None) -> int:
    """Return the class of a pause for the network."""
    if pause_ms is None:
        return 0
    return 1 + sum(pause_ms >= bound for bound in PAUSE_BOUNDS)


class CompiledMarks(CompiledGraph):
    """Computes the same as `MarkNetwork`, up to rounding.

    The bits of a place do not depend on the number of places that are computed with it.
    """

    def __init__(self, shape: NetworkShape, weights: MarkWeights) -> None:
        parts = [weights[name] for name in sorted(weights)]
        origin = Origin("marks", [str(shape), *parts], sum(part.nbytes for part in parts))
        super().__init__(lambda: mark_graph(shape, weights), origin=origin, plans=False)

    def __call__(self, vectors: Floats, occupied: Floats) -> Floats:
        """Return the scores of marks and cases, side by side [places, 7].

        `vectors` [places, embedding] has the vectors of words and ends, with those of the pauses before them;
        `occupied` [places, 1] is 1 where there is a word or an end, and otherwise 0.
        """
        scores: Floats
        [scores] = self._session.run(None, {"vectors": vectors, "occupied": occupied})
        return scores


_PLACES: Final = "places"
_END: Final = 2**62  # the end of a slice that goes to the end of its axis
_EPSILON: Final = 1e-5  # of layer normalisation in torch


def mark_graph(shape: NetworkShape, weights: MarkWeights) -> bytes:
    """Return the graph as the content of a file. Products of rows are faster than its operation for convolutions."""
    graph = NetworkWriter()
    hidden, size = graph.input("vectors", [_PLACES, shape.embedding]), shape.embedding
    occupied = graph.input("occupied", [_PLACES, 1])

    def norm(rows: str, number: int) -> str:
        parts = (_constant(graph, weights[f"norms.{number}.{name}"]) for name in ("weight", "bias"))
        return graph.node("LayerNormalization", rows, *parts, axis=-1, epsilon=_EPSILON)

    def product(rows: str, name: str) -> str:
        return graph.linear(rows, _full(weights[f"{name}.weight"]), _full(weights[f"{name}.bias"]))

    for number, view in enumerate(shape.views):
        rows = _in_view(graph, graph.node("Mul", norm(hidden, number), occupied), view)
        output = graph.node("Relu", product(rows, f"convolutions.{number}"))
        hidden = graph.node("Add", hidden, output) if size == shape.width else output
        size = shape.width
    graph.output(product(norm(hidden, len(shape.views)), "judge"), [_PLACES, MARKS + CASES])
    return graph.content()


def _in_view(graph: NetworkWriter, rows: str, view: Sequence[int]) -> str:
    """Add the rows of the places in view, side by side. There are zeros beyond the ends."""
    before, after = -min(view), max(view)
    padded = graph.node("Pad", rows, graph.numbers(before, 0, after, 0))
    axis, parts = graph.numbers(0), []
    for place in view:
        end = place - after or _END
        parts.append(graph.node("Slice", padded, graph.numbers(before + place), graph.numbers(end), axis))
    return graph.node("Concat", *parts, axis=1)


def _constant(graph: NetworkWriter, weights: NDArray[Any]) -> str:
    return graph.constant(_full(weights).tobytes(), weights.shape, ElementType.FLOAT)


def _full(weights: NDArray[Any]) -> Floats:
    return weights.astype(np.float32)
