"""The activity network as a graph, on slots."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from streamer.engine.compiled.compiled_graph import CompiledGraph
from streamer.engine.compiled.network_writer import BATCH, HALVED_CONTEXT, NetworkWriter
from streamer.engine.models.activity_network import ActivityNetwork
from streamer.engine.models.streaming_model import ModelState


class CompiledActivity(CompiledGraph):
    """Computes the same steps as `ActivityNetwork`, up to rounding.

    A frame has the same bits, however many frames and streams are computed with it.
    """

    def __init__(self, network: ActivityNetwork) -> None:
        super().__init__(activity_graph(network))
        self._mels, self._memory = len(network.mean), network.recall.hidden_size

    def make_state(self, slots: int) -> ModelState:
        """A fresh state for this many slots."""
        return {
            "activity_past": torch.zeros(slots, HALVED_CONTEXT, self._mels),
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
        return torch.from_numpy(-np.logaddexp(0, -judged[:, 0].swapaxes(0, 1)))


def activity_graph(network: ActivityNetwork) -> bytes:
    """The content of the file of the graph.

    Its inputs: `energies`, and of each slot the last energies (`past`) and what it remembers (`memory`). Its outputs:
    the log odds of speech in each frame, and the new past and memory.
    """
    graph, mels, size = NetworkWriter(), len(network.mean), network.recall.hidden_size
    energies = graph.input("energies", [BATCH, "hops", mels])
    past, memory = graph.input("past", [BATCH, HALVED_CONTEXT, mels]), graph.input("memory", [1, BATCH, size])
    fresh = graph.node("Div", graph.node("Sub", energies, graph.tensor(network.mean)), graph.tensor(network.deviation))
    recent = graph.node("Concat", past, fresh, axis=1)
    hidden = graph.silu(graph.halved(graph.silu(graph.halved(recent, network.first)), network.second))
    # As the operation wants them: [frames, batch, width]. No lengths: all streams of a batch have as many frames.
    given = (*map(graph.tensor, _gates(network.recall)), "", memory)
    by_frame = graph.node("Transpose", hidden, perm=[1, 0, 2])
    remembered, last = graph.nodes("GRU", by_frame, *given, results=2, hidden_size=size, linear_before_reset=1)
    weight, bias = graph.tensor(network.judge.weight.t()), graph.tensor(network.judge.bias)
    graph.output(graph.node("Add", graph.node("MatMul", remembered, weight), bias), ["frames", 1, BATCH, 1])
    graph.output(graph.part(recent, -HALVED_CONTEXT, 0), [BATCH, HALVED_CONTEXT, mels])
    graph.output(last, [1, BATCH, size])
    return graph.written()


def _gates(recall: nn.GRU) -> list[Tensor]:
    """The weights and biases in the order of ONNX: torch has the reset gate before the update gate."""

    def turned(weights: Tensor) -> Tensor:
        reset, update, new = weights.chunk(3)
        return torch.cat((update, reset, new))

    fresh, kept, fresh_bias, kept_bias = map(turned, recall.parameters())
    return [part.unsqueeze(0) for part in (fresh, kept, torch.cat((fresh_bias, kept_bias)))]
