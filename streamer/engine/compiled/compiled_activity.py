"""The activity network as a graph, on slots."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from streamer.engine.compiled.network_writer import BATCH, NetworkWriter
from streamer.engine.graphs.sessions import new_session
from streamer.engine.models.activity_network import CONTEXT_FRAMES, ActivityNetwork
from streamer.engine.models.streaming_model import ModelState

_END: Final = 2**62  # where a slice ends that goes to the end


class CompiledActivity:
    """Computes the same steps as `ActivityNetwork`, up to rounding."""

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
        found, kept[numbers], last = self._session.run(None, inputs)
        memory[numbers] = last[0]
        return torch.from_numpy(found)

    def __sizeof__(self) -> int:
        """With the weights, which are in the memory of onnxruntime."""
        return super().__sizeof__() + self._size


def activity_graph(network: ActivityNetwork) -> bytes:
    """The content of the file of the graph.

    Its inputs: `energies`, and of each slot the last energies (`past`) and what it remembers (`memory`). Its outputs:
    the log-probabilities, and the new past and memory.
    """
    graph, mels, size = NetworkWriter(), len(network.mean), network.recall.hidden_size
    energies = graph.input("energies", [BATCH, "hops", mels])
    past, memory = graph.input("past", [BATCH, CONTEXT_FRAMES, mels]), graph.input("memory", [1, BATCH, size])
    fresh = graph.node("Div", graph.node("Sub", energies, graph.tensor(network.mean)), graph.tensor(network.deviation))
    recent = graph.node("Concat", past, fresh, axis=1)
    hidden = graph.node("Transpose", recent, perm=[0, 2, 1])
    for layer in (network.first, network.second):
        hidden = graph.silu(graph.convolution(hidden, layer))
    # One row for each frame, as the operation wants it: [frames, batch, width].
    hidden = graph.node("Transpose", hidden, perm=[2, 0, 1])
    # No lengths: all streams of a batch have the same number of frames.
    given = (hidden, *map(graph.tensor, _gates(network.recall)), "", memory)
    remembered, last = graph.nodes("GRU", *given, results=2, hidden_size=size, linear_before_reset=1)
    rows = graph.node("Transpose", graph.node("Squeeze", remembered, graph.numbers(1)), perm=[1, 0, 2])
    weight, bias = graph.tensor(network.judge.weight.t()), graph.tensor(network.judge.bias)
    judged = graph.node("Add", graph.node("MatMul", rows, weight), bias)
    graph.output(graph.node("Neg", graph.node("Softplus", graph.node("Neg", judged))), [BATCH, "frames", 1])
    begin, end, axis = (graph.numbers(number) for number in (-CONTEXT_FRAMES, _END, 1))
    graph.output(graph.node("Slice", recent, begin, end, axis), [BATCH, CONTEXT_FRAMES, mels])
    graph.output(last, [1, BATCH, size])
    return graph.written()


def _gates(recall: nn.GRU) -> list[Tensor]:
    """The weights and biases in the order of ONNX: torch has the reset gate before the update gate."""

    def turned(weights: Tensor) -> Tensor:
        reset, update, new = weights.chunk(3)
        return torch.cat((update, reset, new))

    fresh, kept, fresh_bias, kept_bias = map(turned, recall.parameters())
    return [part.unsqueeze(0) for part in (fresh, kept, torch.cat((fresh_bias, kept_bias)))]
