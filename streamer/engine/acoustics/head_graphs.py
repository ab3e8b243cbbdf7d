"""What reads the frames and features as graphs: the heads of the encoder, and the activity network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamer.engine.acoustics.bundle_files import Weights, within
from streamer.engine.acoustics.encoder_config import EncoderShape
from streamer.engine.acoustics.streaming_model import Emissions, Floats, ModelState
from streamer.engine.network_graphs import BATCH, CHUNK, HALVED_CONTEXT, CompiledGraph, NetworkWriter, layer_of


class CompiledHeads(CompiledGraph):
    """Computes the log-probabilities of the heads that read the last layer, from its frames.

    The bits of a frame do not depend on the number of frames that are computed with it.
    """

    def __init__(self, config: EncoderShape, weights: Weights) -> None:
        """`weights`: those of the encoder, of which only the heads are used."""
        self._names = [head.name for head in config.heads_of(config.layers)]
        outputs = within(weights, "outputs")
        super().__init__(lambda: heads_graph(self._names, config.frame_width, outputs), plans=False)

    def emissions(self, frames: Floats) -> Emissions:
        """Return the log-probabilities [batch, frames, units] of each head, from frames [batch, frames, width]."""
        return dict(zip(self._names, self._session.run(None, {"frames": frames}), strict=True))


def heads_graph(names: Sequence[str], width: int, weights: Weights) -> bytes:
    """Return the graph of these heads as the content of a file. It has an output for each head."""
    graph = NetworkWriter()
    frames = graph.input("frames", [BATCH, CHUNK, width])
    rows = graph.node("Reshape", frames, graph.numbers(-1, width))
    ahead = graph.node("Slice", graph.node("Shape", frames), graph.numbers(0), graph.numbers(2))
    for name in names:
        head = layer_of(weights, name)
        units = len(head.bias)
        log_probs = graph.node("LogSoftmax", graph.linear(rows, *head), axis=-1)
        shape = graph.node("Concat", ahead, graph.numbers(units), axis=0)
        graph.output(graph.node("Reshape", log_probs, shape), [BATCH, CHUNK, units])
    return graph.content()


class CompiledActivity(CompiledGraph):
    """Computes the same steps as the activity network in torch, up to rounding.

    The bits of a frame do not depend on the number of frames and streams that are computed with it.
    """

    def __init__(self, weights: Weights) -> None:
        super().__init__(lambda: activity_graph(within(weights, "")))
        self.mels, self._memory = len(weights["mean"]), weights["judge.weight"].shape[1]

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots."""
        return {
            "activity_past": np.zeros((slots, HALVED_CONTEXT, self.mels), np.float32),
            "activity_memory": np.zeros((slots, self._memory), np.float32),
        }

    def step(self, state: ModelState, slots: Sequence[int], energies: Floats) -> Floats:
        """Return the log-probabilities of the next frames of each slot: `energies` is [batch, 4 * frames, mels]."""
        past, memory, numbers = state["activity_past"], state["activity_memory"], np.asarray(slots)
        inputs = {"energies": energies, "past": past[numbers], "memory": memory[None, numbers]}
        log_odds, past[numbers], new_memory = self._session.run(None, inputs)
        memory[numbers] = new_memory[0]
        # This is not in the graph, because onnxruntime rounds the last numbers of an array differently.
        log_probs: Floats = -np.logaddexp(0, -log_odds[:, 0].swapaxes(0, 1))
        return log_probs


def activity_graph(weights: Weights) -> bytes:
    """Return the graph of the network as the content of a file.

    Its inputs are `energies`, and for each slot the last energies (`past`) and the state of the GRU (`memory`). Its
    outputs are the log odds of speech in each frame, and the new past and memory.
    """
    first, second, judge = (layer_of(weights, name) for name in ("first", "second", "judge"))
    graph, mels, size = NetworkWriter(), len(weights["mean"]), judge.weight.shape[1]
    energies = graph.input("energies", [BATCH, "hops", mels])
    past, memory = graph.input("past", [BATCH, HALVED_CONTEXT, mels]), graph.input("memory", [1, BATCH, size])
    centred = graph.node("Sub", energies, graph.array(weights["mean"]))
    normalised = graph.node("Div", centred, graph.array(weights["deviation"]))
    recent = graph.node("Concat", past, normalised, axis=1)
    hidden = graph.silu(graph.strided(graph.silu(graph.strided(recent, first, 2)), second, 2))
    # The operation needs [frames, batch, width]. There is no input for lengths: all streams have equally many frames.
    gru_inputs = (*map(graph.array, _gates(within(weights, "recall"))), "", memory)
    by_frame = graph.node("Transpose", hidden, perm=[1, 0, 2])
    outputs, new_memory = graph.nodes("GRU", by_frame, *gru_inputs, results=2, hidden_size=size, linear_before_reset=1)
    weight, bias = graph.array(judge.weight.T), graph.array(judge.bias)
    graph.output(graph.node("Add", graph.node("MatMul", outputs, weight), bias), ["frames", 1, BATCH, 1])
    graph.output(graph.part(recent, -HALVED_CONTEXT, 0), [BATCH, HALVED_CONTEXT, mels])
    graph.output(new_memory, [1, BATCH, size])
    return graph.content()


def _gates(recall: Weights) -> list[Floats]:
    """Return the weights and biases in the order of ONNX: torch has the reset gate before the update gate."""

    def reordered(name: str) -> Floats:
        reset, update, new = np.split(recall[f"{name}_l0"], 3)
        return np.concatenate((update, reset, new))

    biases = np.concatenate((reordered("bias_ih"), reordered("bias_hh")))
    return [part[None] for part in (reordered("weight_ih"), reordered("weight_hh"), biases)]
