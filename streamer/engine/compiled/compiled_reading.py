"""The step in which the neural language model reads a word, as a graph."""

from __future__ import annotations

import torch
from torch import Tensor

from streamer.engine.compiled.compiled_graph import CompiledGraph
from streamer.engine.compiled.network_writer import BATCH, NetworkWriter
from streamer.engine.language.neural_model import NeuralModel


class CompiledReading(CompiledGraph):
    """Computes the same as `NeuralModel.read_vectors`, up to rounding.

    The bits of a row do not depend on the number of rows that are computed with it.
    """

    def __init__(self, model: NeuralModel) -> None:
        # A plan of the memory for each number of rows would take much memory and save little time.
        super().__init__(reading_graph(model), plans=False)

    def __call__(self, memories: Tensor, vectors: Tensor) -> Tensor:
        """Return the memories [rows, numbers] after words with these vectors [rows, vector]."""
        [after] = self._session.run(None, {"memories": memories.numpy(), "vectors": vectors.numpy()})
        return torch.from_numpy(after)


def reading_graph(model: NeuralModel) -> bytes:
    """Return the graph as the content of a file. It computes the memories after words with these vectors.

    One product of rows multiplies the vectors and the last outputs.
    """
    graph, (_, vector, size) = NetworkWriter(), model.sizes
    numbers = 2 * size + vector
    memories, vectors = graph.input("memories", [BATCH, numbers]), graph.input("vectors", [BATCH, vector])
    of_words, of_output, bias, more_bias = model.recall.all_weights[0]
    output, cell = graph.part(memories, 0, size), graph.part(memories, size, 2 * size)
    rows = graph.node("Concat", vectors, output, axis=1)
    gates = graph.linear(rows, torch.cat((of_words, of_output), 1), bias + more_bias)
    input_gate, forget_gate, content, output_gate = graph.nodes("Split", gates, results=4, axis=1)
    kept_cell = graph.node("Mul", graph.node("Sigmoid", forget_gate), cell)
    new_cell = graph.node("Mul", graph.node("Sigmoid", input_gate), graph.node("Tanh", content))
    cell = graph.node("Add", kept_cell, new_cell)
    output = graph.node("Mul", graph.node("Sigmoid", output_gate), graph.node("Tanh", cell))
    expected = graph.linear(output, model.expect.weight, model.expect.bias)
    graph.output(graph.node("Concat", output, cell, expected, axis=1), [BATCH, numbers])
    return graph.content()
