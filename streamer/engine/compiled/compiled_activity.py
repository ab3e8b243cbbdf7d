"""The activity network as a graph, on slots."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from streamer.engine.compiled.network_writer import BATCH, NetworkWriter
from streamer.engine.graphs.sessions import new_session
from streamer.engine.models.activity_network import CONTEXT_FRAMES, ActivityNetwork
from streamer.engine.models.streaming_model import ModelState

_END: Final = 2**62  # where a slice ends that goes to the end


class CompiledActivity:
    """Computes the same steps as `ActivityNetwork`, up to rounding.

    A frame has the same bits, however many frames and streams are computed with it.
    """

    def __init__(self, network: ActivityNetwork) -> None:
        self._mels, self._memory = len(network.mean), network.recall.hidden_size
        content = activity_graph(network)
        self._size = len(content)
        self._session = new_session(content)

    def make_state(self, slots: int) -> ModelState:
        """A fresh state for this many slots."""
        return {
            "activity_past": torch.zeros(slots, CONTEXT_FRAMES, self._mels),
            "activity_memory": torch.zeros(slots, self._memory),
        }

    def step(self, state: ModelState, slots: Tensor, energies: Tensor) -> Tensor:
        """Log-probabilities of the next frames of each slot: `energies` is [batch, 4 * frames, mels]."""
        # By numpy, which shares the memory and takes a fraction of the time of torch for so small arrays.
        kept, memory, numbers = state["activity_past"].numpy(), state["activity_memory"].numpy(), slots.numpy()
        inputs = {"energies": energies.numpy(), "past": kept[numbers], "memory": memory[None, numbers]}
        judged, kept[numbers], last = self._session.run(None, inputs)
        memory[numbers] = last[0]
        # Not in the graph: onnxruntime rounds the last numbers of an array in another way.
        return torch.from_numpy(-np.logaddexp(0, -judged))

    def __sizeof__(self) -> int:
        """With the weights, which are in the memory of onnxruntime."""
        return super().__sizeof__() + self._size


def activity_graph(network: ActivityNetwork) -> bytes:
    """The content of the file of the graph.

    Its inputs: `energies`, and of each slot the last energies (`past`) and what it remembers (`memory`). Its outputs:
    the log odds of speech, and the new past and memory.
    """
    graph, mels, size = NetworkWriter(), len(network.mean), network.recall.hidden_size
    energies = graph.input("energies", [BATCH, "hops", mels])
    past, memory = graph.input("past", [BATCH, CONTEXT_FRAMES, mels]), graph.input("memory", [1, BATCH, size])
    fresh = graph.node("Div", graph.node("Sub", energies, graph.tensor(network.mean)), graph.tensor(network.deviation))
    recent = graph.node("Concat", past, fresh, axis=1)
    # The convolutions as products of rows: a convolution of few frames would have other sums than one of many.
    # A row of the first one gives two outputs, from these four hops and those that begin with the last of them.
    hops = graph.numbers(0, -1, 4 * mels)
    twice = [graph.node("Reshape", _cut(graph, recent, *ends), hops) for ends in ((0, -3), (3, _END))]
    outputs = graph.silu(_linear(graph, graph.node("Concat", *twice, axis=2), *_first(network.first)))
    # A frame is made of four such outputs.
    pairs = [_cut(graph, outputs, *ends) for ends in ((0, -1), (1, _END))]
    frames = graph.silu(_linear(graph, graph.node("Concat", *pairs, axis=2), *_second(network.second)))
    # As the operation wants them: [frames, batch, width]. No lengths: all streams of a batch have as many frames.
    given = (*map(graph.tensor, _gates(network.recall)), "", memory)
    by_frame = graph.node("Transpose", frames, perm=[1, 0, 2])
    remembered, last = graph.nodes("GRU", by_frame, *given, results=2, hidden_size=size, linear_before_reset=1)
    rows = graph.node("Transpose", graph.node("Squeeze", remembered, graph.numbers(1)), perm=[1, 0, 2])
    graph.output(_linear(graph, rows, network.judge.weight.t(), network.judge.bias), [BATCH, "frames", 1])
    graph.output(_cut(graph, recent, -CONTEXT_FRAMES, _END), [BATCH, CONTEXT_FRAMES, mels])
    graph.output(last, [1, BATCH, size])
    return graph.written()


def _cut(graph: NetworkWriter, value: str, begin: int, end: int) -> str:
    """A part of the second axis."""
    return graph.node("Slice", value, *map(graph.numbers, (begin, end, 1)))


def _linear(graph: NetworkWriter, rows: str, weight: Tensor, bias: Tensor) -> str:
    """A linear layer on the last axis: `weight` is [width, new width]."""
    return graph.node("Add", graph.node("MatMul", rows, graph.tensor(weight)), graph.tensor(bias))


def _first(layer: nn.Conv1d) -> tuple[Tensor, Tensor]:
    """The weight and bias for rows of hops 0 to 3 and 3 to 6: the layer reads hops 0 to 4, and 2 to 6."""
    kernel = layer.weight.permute(2, 1, 0)  # [5, mels, width]
    weight = kernel.new_zeros(8, layer.in_channels, 2, layer.out_channels)
    weight[:4, :, 0], weight[5, :, 0] = kernel[:4], kernel[4]
    weight[2:4, :, 1], weight[5:, :, 1] = kernel[:2], kernel[2:]
    return weight.flatten(2).flatten(0, 1), _bias(layer).repeat(2)


def _second(layer: nn.Conv1d) -> tuple[Tensor, Tensor]:
    """The weight and bias for rows of all that the layer reads for one output."""
    return layer.weight.permute(2, 1, 0).flatten(0, 1), _bias(layer)


def _bias(layer: nn.Conv1d) -> Tensor:
    assert layer.bias is not None
    return layer.bias


def _gates(recall: nn.GRU) -> list[Tensor]:
    """The weights and biases in the order of ONNX: torch has the reset gate before the update gate."""

    def turned(weights: Tensor) -> Tensor:
        reset, update, new = weights.chunk(3)
        return torch.cat((update, reset, new))

    fresh, kept, fresh_bias, kept_bias = map(turned, recall.parameters())
    return [part.unsqueeze(0) for part in (fresh, kept, torch.cat((fresh_bias, kept_bias)))]
