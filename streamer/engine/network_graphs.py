"""Networks as graphs, which onnxruntime computes: their sessions, and the layers that they are written from.

The graphs are written from weights by their names in torch. The modules of `networks` compute the same.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession

from streamer.engine.acoustics.bundle_files import Weights
from streamer.engine.acoustics.streaming_model import Floats
from streamer.engine.array_memory import MappedFile
from streamer.engine.file_cache import LEAST, Part, cached_folder, fingerprint
from streamer.engine.public.sessions import WEIGHTS, new_session, open_optimised, write_optimised
from streamer.models.byte_products import RowProducts
from streamer.models.graph_writer import CONTRIBUTED, GraphWriter
from streamer.models.onnx_file import ElementType

# A network that onnxruntime computes as a graph.

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Origin:
    """All that the content of a graph follows from. It names the files of the graph in the cache."""

    graph: str
    parts: Sequence[Part]
    size: int  # the bytes of the weights


class CompiledGraph:
    """Computes the graph of a network in a session of its own.

    With an origin, large weights are mapped from the cache: all processes share them, and do not write the graph again.
    """

    def __init__(
        self,
        write: Callable[[], bytes],
        *,
        origin: Origin | None = None,
        plans: bool = True,
        without: Sequence[str] = (),
    ) -> None:
        """`write` returns the content of the file of the graph. For the options, see `new_session`."""
        shared = None if origin is None else _shared_session(write, origin, plans, without)
        self._size = 0
        if shared is None:
            content = write()
            self._session, self._size = new_session(content, plans=plans, without=without), len(content)
        else:
            self._session, self._file = shared

    def __sizeof__(self) -> int:
        """Return the size with the weights, if they are in the memory of onnxruntime."""
        return super().__sizeof__() + self._size


def _shared_session(
    write: Callable[[], bytes], origin: Origin, plans: bool, without: Sequence[str]
) -> tuple[InferenceSession, MappedFile] | None:
    """Return a session with weights in the cache. None if they are too small, or if nothing can be written there."""

    def add(folder: Path) -> None:
        write_optimised(write(), folder, without=without)

    if origin.size < LEAST:
        return None
    folder = cached_folder(origin.graph, fingerprint(*origin.parts, *without), add)
    if folder is None:
        return None
    try:
        return open_optimised(folder, plans=plans), MappedFile(folder / WEIGHTS)
    except OSError as error:
        _LOG.warning("The weights of a graph are not shared by processes: %s", error)
        shutil.rmtree(folder, ignore_errors=True)  # so that the next process makes them anew
        return None


# Writes the layers of our networks into a graph.


class Precision(Enum):
    """The numbers that the linear layers of a graph multiply."""

    BYTES = "int8"
    FULL = "float32"

    def writer(self) -> NetworkWriter:
        """Return a new writer of graphs."""
        return ByteLayers() if self is Precision.BYTES else NetworkWriter()


BATCH: Final = "batch"
CHUNK: Final = "chunk"
HALVED_CONTEXT: Final = 8
"""How many frames before the first one two layers of stride 2 read."""
_END: Final = 2**62  # the end of a slice that goes to the end of its axis
_NORM_FLOOR: Final = 1e-5  # what layer normalisation in torch adds to the variance


class Layer(NamedTuple):
    """The weight and bias of a layer. The weight has the order of axes that torch uses."""

    weight: Floats
    bias: Floats


def layer_of(weights: Weights, name: str) -> Layer:
    """Return the layer with this name."""
    return Layer(weights[f"{name}.weight"], weights[f"{name}.bias"])


class NetworkWriter(GraphWriter):
    """Writes a graph. Each method adds a layer, and returns the name of its output."""

    def array(self, array: NDArray[Any]) -> str:
        """Add a constant with fractions in 32 bits or whole numbers."""
        if np.issubdtype(array.dtype, np.integer):
            return self.constant(array.astype(np.int64).tobytes(), array.shape, ElementType.INT64)
        return self.constant(array.astype(np.float32).tobytes(), array.shape, ElementType.FLOAT)

    def linear(self, rows: str, weight: Floats, bias: Floats) -> str:
        """Add a linear layer on rows. The weight has the order of axes that torch uses."""
        return self.node("Gemm", rows, self.array(weight.T), self.array(bias))

    def norm(self, rows: str, norm: Layer) -> str:
        """Add layer normalisation."""
        parts = map(self.array, norm)
        return self.node("LayerNormalization", rows, *parts, axis=-1, epsilon=_NORM_FLOOR)

    def norm_before(self, rows: str, norm: Layer) -> str:
        """Add layer normalisation before layers that `behind` returns, which do its scaling and shifting."""
        return self.norm(rows, Layer(np.ones_like(norm.weight), np.zeros_like(norm.bias)))

    def behind(self, norm: Layer, layer: Layer) -> Layer:
        """Return what this layer becomes behind `norm_before`."""
        return Layer(layer.weight * norm.weight, layer.bias + layer.weight @ norm.bias)

    def silu(self, value: str) -> str:
        """Add SiLU as one operation."""
        return self.node("QuickGelu", value, domain=CONTRIBUTED, alpha=1.0)

    def gelu(self, value: str) -> str:
        """Add GELU as one operation."""
        return self.node("Gelu", value, domain=CONTRIBUTED)

    def after_zeros(self, frames: str, count: int) -> str:
        """Put this many frames of zeros before those of [batch, frames, width]."""
        return self.node("Pad", frames, self.numbers(0, count, 0, 0, 0, 0))

    def strided(self, frames: str, layer: Layer, stride: int) -> str:
        """Add a convolution on [batch, frames, width] as a product of rows.

        A product is faster for many streams, and the bits of a frame do not depend on the rest of the batch. A row is
        made of whole groups of as many frames as the stride. If some are left over at its beginning, they are read one
        by one if they are few. Otherwise they are a whole group, too, whose first frames have no weight: then the
        number of frames must be a multiple of the stride.
        """
        outputs, width, kernel = layer.weight.shape
        count, left = divmod(kernel, stride)
        weight, single = layer.weight.transpose(2, 1, 0), 2 * left < stride
        if left and not single:
            count, weight = count + 1, np.pad(weight, ((stride - left, 0), (0, 0), (0, 0)))
        parts = []
        if single:
            ends = ((first, 1 + first - kernel, 1, stride) for first in range(left))
            parts = [self.node("Slice", frames, *map(self.numbers, each)) for each in ends]
            frames = self.part(frames, left, 0) if left else frames
        groups = self.node("Reshape", frames, self.numbers(0, -1, stride * width))
        parts += [self.part(groups, first, first + 1 - count) for first in range(count)]
        rows = self.node("Concat", *parts, axis=2)
        product = self.node("MatMul", rows, self.array(weight.reshape(-1, outputs)))
        return self.node("Add", product, self.array(layer.bias))

    def part(self, value: str, begin: int, end: int) -> str:
        """Add a slice of the second axis. An end of 0 is the end of the axis."""
        return self.node("Slice", value, self.numbers(begin), self.numbers(end or _END), self.numbers(1))


class ByteLayers(NetworkWriter):
    """Writes linear layers that multiply bytes, which takes less than half as long. Convolutions need all bits.

    Each output of a layer has a scale for its weights, and each row has one for its numbers, so a row depends on no
    other. Sums of whole numbers have no order, so neither do its last bits.
    """

    def __init__(self) -> None:
        super().__init__()
        self._products = RowProducts(self, _ROW_BITS)

    def norm_before(self, rows: str, norm: Layer) -> str:
        """Add layer normalisation with its scaling, which makes numbers small that are far larger than the others."""
        return self.norm(rows, norm)

    def behind(self, norm: Layer, layer: Layer) -> Layer:
        """Return the layer as it is."""
        return layer

    def linear(self, rows: str, weight: Floats, bias: Floats) -> str:
        """Add a linear layer on rows. The weight has the order of axes that torch uses."""
        scales = np.maximum(np.abs(weight).max(1), _LEAST_WEIGHT) / _LARGEST_BYTE
        table = np.rint(weight.T / scales).astype(np.int8)
        content = self.constant(table.tobytes(), table.shape, ElementType.INT8)
        return self.node("Add", self._products.product(rows, content, self.array(scales)), self.array(bias))


# A few numbers of a row are far larger than the others, so rows have one of the 15 bits more than weights.
_ROW_BITS: Final = 8
_LARGEST_BYTE: Final = 64  # 2 * 255 * 64 is less than 2 ** 15
_LEAST_WEIGHT: Final = 1e-8
