"""The step in which the neural language model reads a word, as a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from streamer.engine.acoustics.streaming_model import Floats
from streamer.engine.network_graphs import BATCH, CompiledGraph, NetworkWriter, Origin
from streamer.models.graph_writer import CONTRIBUTED
from streamer.models.onnx_file import ElementType


class ReadingWeights(Protocol):
    """The weights with which the neural language model reads words: those of the LSTM `recall` and layer `expect`."""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of words, and the lengths of a word vector and of an LSTM state."""
        ...

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The weights as they are stored, with their scales."""
        ...

    def of(self, name: str) -> Floats:
        """Return these weights in full numbers."""
        ...


class CompiledReading(CompiledGraph):
    """Computes the same as `NeuralNetwork.read_vectors`, up to rounding. It multiplies the bytes of the weights.

    A sum of whole numbers has no order: the bits of a row depend neither on the number of rows that are computed with
    it, nor on the processor's way to multiply.
    """

    def __init__(self, weights: ReadingWeights) -> None:
        parts = [weights.arrays[name] for name in sorted(weights.arrays) if name.startswith(("recall.", "expect."))]
        origin = Origin("reading", [str(weights.sizes), *parts], sum(part.nbytes for part in parts))
        # A plan of the memory for each number of rows would take much memory and save little time.
        super().__init__(lambda: reading_graph(weights), origin=origin, plans=False)

    def __call__(self, memories: Floats, vectors: NDArray[np.int8], scales: Floats) -> Floats:
        """Return the memories [rows, numbers] after words with these vectors [rows, vector], and a scale for each."""
        half = vectors >> 1
        halves = np.concatenate((half, vectors - half), 1) + np.int8(_ZERO)
        after: Floats
        inputs = {"memories": memories, "halves": halves.view(np.uint8), "scales": scales}
        [after] = self._session.run(None, inputs)
        return after


# Processors without operations for such products add up two products of bytes in 16 bits. So that they have room, bytes
# without a sign are at most 128: the halves of a byte of a vector, or a number of an output between -63 and 63.
_ZERO: Final = 64  # the byte that means 0
_COARSE: Final = 1 / 63  # outputs lie between -1 and 1
_FINE: Final = _COARSE / 126  # what rounding to coarse numbers leaves lies between -63 and 63 of these


def reading_graph(weights: ReadingWeights) -> bytes:
    """Return the graph as the content of a file. It computes the memories after words with these vectors.

    Its inputs are `memories`, the `halves` of the bytes of the vectors [rows, 2 * vector], and their `scales`.
    """
    graph, (_, vector, size) = ByteProducts(weights), weights.sizes
    numbers = 2 * size + vector
    memories, scales = graph.input("memories", [BATCH, numbers]), graph.input("scales", [BATCH, 1])
    halves = graph.input("halves", [BATCH, 2 * vector], ElementType.UINT8)
    output, cell = graph.part(memories, 0, size), graph.part(memories, size, 2 * size)
    bias, more_bias = (weights.of(f"recall.bias_{part}_l0") for part in ("ih", "hh"))
    of_words = graph.node("Mul", graph.byte_product(halves, 1.0, "recall.weight_ih_l0", halves=True), scales)
    of_output = graph.of_output(output, "recall.weight_hh_l0", bias + more_bias)
    gates = graph.node("Add", of_output, of_words)
    input_gate, forget_gate, content, output_gate = graph.nodes("Split", gates, results=4, axis=1)
    kept_cell = graph.node("Mul", graph.node("Sigmoid", forget_gate), cell)
    new_cell = graph.node("Mul", graph.node("Sigmoid", input_gate), graph.node("Tanh", content))
    cell = graph.node("Add", kept_cell, new_cell)
    output = graph.node("Mul", graph.node("Sigmoid", output_gate), graph.node("Tanh", cell))
    expected = graph.of_output(output, "expect.weight", weights.of("expect.bias"))
    graph.output(graph.node("Concat", output, cell, expected, axis=1), [BATCH, numbers])
    return graph.content()


class ByteProducts(NetworkWriter):
    """Writes a graph whose products multiply the bytes of weights that are stored with a scale for each row."""

    def __init__(self, weights: ReadingWeights) -> None:
        super().__init__()
        self._weights, self._tables = weights, dict[str, tuple[str, str]]()
        self._zero = self.constant(bytes([_ZERO]), [], ElementType.UINT8)

    def of_output(self, output: str, name: str, bias: Floats) -> str:
        """Add a linear layer on numbers between -1 and 1. Each is the sum of a coarse and a fine number."""
        scale = self._scale(_COARSE)
        coarse = self.node("QuantizeLinear", output, scale, self._zero)
        left = self.node("Sub", output, self.node("DequantizeLinear", coarse, scale, self._zero))
        fine = self.node("QuantizeLinear", left, self._scale(_FINE), self._zero)
        return self.node("Add", self.byte_product(coarse, _COARSE, name, bias), self.byte_product(fine, _FINE, name))

    def byte_product(
        self, rows: str, scale: float, name: str, bias: Floats | None = None, *, halves: bool = False
    ) -> str:
        """Add the product of rows of bytes and these weights. `halves`: two bytes of a row are added up before it."""
        if name not in self._tables:
            table = self._weights.arrays[name].T
            content = np.concatenate((table, table)) if halves else table
            scales = self._weights.arrays[f"{name}.scales"][:, 0]
            self._tables[name] = self.constant(content.tobytes(), content.shape, ElementType.INT8), self.array(scales)
        table_name, scales_name = self._tables[name]
        inputs = [rows, table_name, self._scale(scale), scales_name, self._zero]
        inputs += [] if bias is None else ["", self.array(bias)]
        return self.node("MatMulIntegerToFloat", *inputs, domain=CONTRIBUTED)

    def _scale(self, scale: float) -> str:
        return self.constant(np.float32(scale).tobytes(), [], ElementType.FLOAT)
