"""The activity network as a graph, with its states in slots."""

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

    The bits of a frame do not depend on the number of frames and streams that are computed with it.
    """

    def __init__(self, network: ActivityNetwork) -> None:
        super().__init__(activity_graph(network))
        self._mels, self._memory = len(network.mean), network.recall.hidden_size

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        return {
            "activity_past": torch.zeros(slots, HALVED_CONTEXT, self._mels),
            "activity_memory": torch.zeros(slots, self._memory),
        }

    def step(self, state: ModelState, slots: Tensor, energies: Tensor) -> Tensor:
        """Return the log-probabilities of the next frames of each slot: `energies` is [batch, 4 * frames, mels]."""
        # With numpy, which shares the memory, and takes a fraction of the time of torch for such small arrays.
        past, memory, numbers = state["activity_past"].numpy(), state["activity_memory"].numpy(), slots.numpy()
        inputs = {"energies": energies.numpy(), "past": past[numbers], "memory": memory[None, numbers]}
        log_odds, past[numbers], new_memory = self._session.run(None, inputs)
        memory[numbers] = new_memory[0]
        # This is not in the graph, because onnxruntime rounds the last numbers of an array differently.
        return torch.from_numpy(-np.logaddexp(0, -log_odds[:, 0].swapaxes(0, 1)))


def activity_graph(network: ActivityNetwork) -> bytes:
    """Return the graph of the network as the content of a file.

    Its inputs are `energies`, and for each slot the last energies (`past`) and the state of the GRU (`memory`). Its
    outputs are the log odds of speech in each frame, and the new past and memory.
    """
    graph, mels, size = NetworkWriter(), len(network.mean), network.recall.hidden_size
    energies = graph.input("energies", [BATCH, "hops", mels])
    past, memory = graph.input("past", [BATCH, HALVED_CONTEXT, mels]), graph.input("memory", [1, BATCH, size])
    centred = graph.node("Sub", energies, graph.tensor(network.mean))
    normalised = graph.node("Div", centred, graph.tensor(network.deviation))
    recent = graph.node("Concat", past, normalised, axis=1)
    hidden = graph.silu(graph.halved(graph.silu(graph.halved(recent, network.first)), network.second))
    # The operation needs [frames, batch, width]. There is no input for lengths: all streams have equally many frames.
    gru_inputs = (*map(graph.tensor, _gates(network.recall)), "", memory)
    by_frame = graph.node("Transpose", hidden, perm=[1, 0, 2])
    outputs, new_memory = graph.nodes("GRU", by_frame, *gru_inputs, results=2, hidden_size=size, linear_before_reset=1)
    weight, bias = graph.tensor(network.judge.weight.t()), graph.tensor(network.judge.bias)
    graph.output(graph.node("Add", graph.node("MatMul", outputs, weight), bias), ["frames", 1, BATCH, 1])
    graph.output(graph.part(recent, -HALVED_CONTEXT, 0), [BATCH, HALVED_CONTEXT, mels])
    graph.output(new_memory, [1, BATCH, size])
    return graph.content()


def _gates(recall: nn.GRU) -> list[Tensor]:
    """Return the weights and biases in the order of ONNX: torch has the reset gate before the update gate."""

    def reordered(weights: Tensor) -> Tensor:
        reset, update, new = weights.chunk(3)
        return torch.cat((update, reset, new))

    input_weights, recurrent_weights, input_bias, recurrent_bias = map(reordered, recall.parameters())
    return [part.unsqueeze(0) for part in (input_weights, recurrent_weights, torch.cat((input_bias, recurrent_bias)))]
