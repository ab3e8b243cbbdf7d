"""What the neural language model does to read a word, as a graph."""

from __future__ import annotations

import torch
from torch import Tensor

from streamer.engine.compiled.compiled_graph import CompiledGraph
from streamer.engine.compiled.network_writer import BATCH, NetworkWriter
from streamer.engine.language.neural_model import NeuralModel


class CompiledReading(CompiledGraph):
    """Computes what `NeuralModel.remembered` computes, up to rounding.

    A row has the same bits, however many rows are computed with it.
    """

    def __init__(self, model: NeuralModel) -> None:
        # A plan of the memory for each number of rows would take more memory than it saves time.
        super().__init__(reading_graph(model), plans=False)

    def __call__(self, memories: Tensor, vectors: Tensor) -> Tensor:
        """The memories [rows, numbers] after words with these vectors [rows, vector]."""
        [found] = self._session.run(None, {"memories": memories.numpy(), "vectors": vectors.numpy()})
        return torch.from_numpy(found)


def reading_graph(model: NeuralModel) -> bytes:
    """The content of the file of the graph: from the inputs `memories` and `vectors` to the memories after the words.

    What is read and what is remembered are multiplied in one product of rows.
    """
    graph, (_, vector, size) = NetworkWriter(), model.sizes
    numbers = 2 * size + vector
    memories, vectors = graph.input("memories", [BATCH, numbers]), graph.input("vectors", [BATCH, vector])
    of_words, of_output, bias, more_bias = model.recall.all_weights[0]
    output, cell = graph.part(memories, 0, size), graph.part(memories, size, 2 * size)
    rows = graph.node("Concat", vectors, output, axis=1)
    gates = graph.linear(rows, torch.cat((of_words, of_output), 1), bias + more_bias)
    taken, kept, new, told = graph.nodes("Split", gates, results=4, axis=1)
    kept_cell = graph.node("Mul", graph.node("Sigmoid", kept), cell)
    new_cell = graph.node("Mul", graph.node("Sigmoid", taken), graph.node("Tanh", new))
    cell = graph.node("Add", kept_cell, new_cell)
    output = graph.node("Mul", graph.node("Sigmoid", told), graph.node("Tanh", cell))
    expected = graph.linear(output, model.expect.weight, model.expect.bias)
    graph.output(graph.node("Concat", output, cell, expected, axis=1), [BATCH, numbers])
    return graph.written()
