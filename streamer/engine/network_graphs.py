"""The encoder as a graph, with its states in slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

from streamer.engine.acoustics.encoder import (
    ROTATION_PERIOD,
    SUBSAMPLING,
    WHOLE_FRAMES,
    ConformerBlock,
    ConvolutionModule,
    Encoder,
    FeedForward,
    SelfAttention,
    SubsamplingStem,
)
from streamer.engine.acoustics.speech_detector import ActivityNetwork
from streamer.engine.acoustics.streaming_model import ModelState
from streamer.engine.language.neural_model import NeuralWeights
from streamer.engine.public.sessions import new_session
from streamer.models.graph_writer import CONTRIBUTED, GraphWriter
from streamer.models.onnx_file import ElementType

# A network that onnxruntime computes as a graph.


class CompiledGraph:
    """Computes the graph of a network in a session of its own."""

    def __init__(self, content: bytes, *, plans: bool = True, without: Sequence[str] = ()) -> None:
        """`content` is the content of the file of the graph. For the options, see `new_session`."""
        self._size = len(content)
        self._session = new_session(content, plans=plans, without=without)

    def __sizeof__(self) -> int:
        """Return the size with the weights, which are in the memory of onnxruntime."""
        return super().__sizeof__() + self._size


Integers = NDArray[np.int64]
Floats = NDArray[np.float32]


class CompiledEncoder(CompiledGraph):
    """Computes the same steps as `Encoder`, up to rounding. Of the encoder it keeps only the configuration."""

    def __init__(self, encoder: Encoder) -> None:
        self._config = config = encoder.config
        if config.left_frames < config.largest_chunk:
            raise ValueError(f"left_frames {config.left_frames} is less than the longest step, {config.largest_chunk}")
        # onnxruntime computes layer normalisation and the sum before it several times slower if it fuses them. Plans of
        # the memory are left out: one for each size of a batch would take much memory and save little time.
        super().__init__(EncoderGraph(encoder).written(), without=["SkipLayerNormFusion"], plans=False)
        self._windows, self._pasts = windows(config.layers), pasts(config.layers)

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots.

        In memory, the layers of keys, values and convolutions come before the slots, so that the graph can read each
        layer of a batch in one piece. A window is a ring buffer of the frames before the chunk. The graph adds the
        chunk itself.
        """
        config = self._config
        size = config.width // config.heads
        return {
            "mel": torch.zeros(slots, HALVED_CONTEXT, config.mels),
            "windows": torch.zeros(2 * config.layers, slots, config.heads, config.left_frames, size).transpose(0, 1),
            "conv": torch.zeros(config.layers, slots, config.kernel - 1, config.width).transpose(0, 1),
            "frames": torch.zeros(slots, dtype=torch.int64),
        }

    def step(self, state: ModelState, slots: Tensor, mel: Tensor) -> Tensor:
        """Return the next frames of each slot, [batch, chunk, width]: `mel` is [batch, 4 * chunk, mels]."""
        self._config.chunk_of(mel)
        return self._compute(state, slots, mel)

    def whole(self, mel: Tensor) -> Tensor:
        """Return the frames of a complete segment, [1, frames, width]. They are computed in the longest steps."""
        state, slot = self.make_state(1), torch.zeros(1, dtype=torch.int64)
        steps = mel.split(WHOLE_FRAMES * SUBSAMPLING, dim=1)
        return torch.cat([self._compute(state, slot, step) for step in steps], dim=1)

    def _compute(self, state: ModelState, slots: Tensor, mel: Tensor) -> Tensor:
        config, chunk = self._config, mel.shape[1] // SUBSAMPLING
        # With numpy, which shares the memory, and begins an operation in a fraction of the time of torch.
        numbers, mel_past, counts = slots.numpy(), state["mel"].numpy(), state["frames"].numpy()
        windows_state, past = state["windows"].numpy().swapaxes(0, 1), state["conv"].numpy().swapaxes(0, 1)
        window, before, frames = _rows_of(windows_state, numbers), _rows_of(past, numbers), counts[numbers]
        recent = np.concatenate((mel_past[numbers], mel.numpy()), axis=1)
        inputs = {"mel": recent, "frames": frames[:, None]}
        inputs |= zip(self._windows, window, strict=True)
        inputs |= zip(self._pasts, before[:, :, None], strict=True)
        frames_out, new, newest = self._session.run(None, inputs)
        mel_past[numbers], counts[numbers] = recent[:, -HALVED_CONTEXT:], frames + chunk
        newest = newest.reshape(len(past), len(numbers), chunk, config.width)[:, :, -past.shape[2] :]
        past[:, numbers] = np.concatenate((before[:, :, chunk:], newest), axis=2)
        places = (frames[:, None] + np.arange(chunk)[-config.left_frames :]) % config.left_frames
        by_head = new.reshape(len(windows_state), len(numbers), chunk, config.heads, -1)[:, :, -config.left_frames :]
        # The axes of this index come first, so the values have them first, too.
        windows_state[:, numbers[:, None], :, places] = by_head.transpose(1, 2, 0, 3, 4)
        return torch.from_numpy(frames_out)


def _rows_of(state: Floats, slots: Integers) -> Floats:
    """Return the state of these slots, [layers, batch, ...]. It is not copied if the slots lie side by side."""
    first, count = int(slots[0]), len(slots)
    if slots.tolist() == list(range(first, first + count)):
        return state[:, first : first + count]
    return state.take(slots, axis=1)


# Writes a step of the encoder as a graph, for batches of any size and chunks of any length.

CHUNK: Final = "chunk"
_HIDDEN: Final = -1e9  # softmax turns this into zero


def windows(layers: int) -> list[str]:
    """Return the names of the inputs for the past keys and values, in the order of the state of a slot."""
    return [f"{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]


def pasts(layers: int) -> list[str]:
    """Return the names of the inputs for the past frames of the convolutions, in the order of the state of a slot."""
    return [f"past_{layer}" for layer in range(layers)]


class EncoderGraph:
    """The graph of one encoder.

    Its inputs are `mel`, `frames` (how many a slot has computed), and the names in `pasts` and `windows`. Its outputs
    are the frames, the keys and values of the chunk in the order of `windows`, and the inputs of the convolutions.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._config = encoder, encoder.config
        self._graph = NetworkWriter()
        self._new_windows: list[str] = []
        self._new_pasts: list[str] = []

    def written(self) -> bytes:
        """Return the graph as the content of a file."""
        graph, config = self._graph, self._config
        width = config.width
        self._rotation = [graph.tensor(table) for table in (self._encoder.rotation.cosine, self._encoder.rotation.sine)]
        self._as_rows = graph.numbers(-1, width)
        frames = self._stem(self._encoder.stem)
        self._as_batch = graph.node("Shape", frames)  # [batch, chunk, width]
        ends = ((0, 1), (1, 2))
        self._streams, self._chunk = (graph.node("Slice", self._as_batch, *map(graph.numbers, each)) for each in ends)
        shape = (self._streams, graph.numbers(1), self._chunk, graph.numbers(width))
        self._as_pictures = graph.node("Concat", *shape, axis=0)
        self._places(graph.input("frames", [BATCH, 1], ElementType.INT64))
        rows = graph.norm(self._rows(frames), self._encoder.stem.norm)
        for layer, block in enumerate(self._encoder.blocks):
            rows = self._block(rows, cast("ConformerBlock", block), layer)
        graph.output(self._batch(rows), [BATCH, CHUNK, width])
        # The layers lie one after another.
        graph.output(graph.node("Concat", *self._new_windows, axis=0), ["windows", CHUNK, width])
        graph.output(graph.node("Concat", *self._new_pasts, axis=0), ["pasts", 1, CHUNK, width])
        return graph.content()

    def _stem(self, stem: SubsamplingStem) -> str:
        graph = self._graph
        mel = graph.input("mel", [BATCH, "hops", self._config.mels])
        return graph.halved(graph.silu(graph.halved(mel, stem.first)), stem.second)

    def _places(self, frames: str) -> None:
        """Add the positions of the chunk, and the mask, which hides the part of the window that is not filled yet."""
        graph, left = self._graph, self._config.left_frames
        streams, chunk = self._streams, self._chunk
        end = graph.node("Squeeze", chunk)
        positions = graph.node("Add", frames, graph.node("Range", graph.number(0), end, graph.number(1)))
        self._positions = graph.node("Mod", positions, graph.number(ROTATION_PERIOD))
        filled = graph.node("Less", graph.tensor(torch.arange(left).unsqueeze(0)), frames)
        visible, hidden = graph.tensor(torch.zeros(1)), graph.tensor(torch.full((1,), _HIDDEN))
        window = graph.node("Unsqueeze", graph.node("Where", filled, visible, hidden), graph.numbers(1, 2))
        one, every = graph.numbers(1), graph.numbers(left)
        window = graph.node("Expand", window, graph.node("Concat", streams, one, chunk, every, axis=0))
        within = graph.node("Expand", visible, graph.node("Concat", streams, one, chunk, chunk, axis=0))
        self._mask = graph.node("Concat", window, within, axis=3)

    def _block(self, rows: str, block: ConformerBlock, layer: int) -> str:
        graph = self._graph
        rows = graph.node("Add", rows, self._feed_forward(rows, block.before))
        rows = graph.node("Add", rows, self._attention(rows, block.attention, layer))
        rows = graph.node("Add", rows, self._convolution(rows, block.convolution, layer))
        rows = graph.node("Add", rows, self._feed_forward(rows, block.after))
        return graph.norm(rows, block.norm)

    def _feed_forward(self, rows: str, network: FeedForward) -> str:
        """Add a feed-forward network, and return half of its output."""
        graph, layers = self._graph, tuple(network)
        norm, first, _, second = cast("tuple[nn.LayerNorm, nn.Linear, nn.SiLU, nn.Linear]", layers)
        hidden = graph.silu(graph.linear(graph.plain_norm(rows, norm), *behind(norm, first)))
        return graph.linear(hidden, second.weight / 2, second.bias / 2)

    def _attention(self, rows: str, attention: SelfAttention, layer: int) -> str:
        graph, heads = self._graph, self._config.heads
        rows_in = graph.plain_norm(rows, attention.norm)
        parts = zip(*(part.chunk(3) for part in behind(attention.norm, attention.project)), strict=True)
        query, key, value = (self._batch(graph.linear(rows_in, *part)) for part in parts)
        query, key = (self._rotated(vectors) for vectors in (query, key))
        left, size = self._config.left_frames, self._config.width // heads
        past = [graph.input(f"{kind}_{layer}", [BATCH, heads, left, size]) for kind in ("keys", "values")]
        # The two empty inputs are a bias and another mask, which are not used.
        inputs = (query, key, value, "", "", self._mask, *past)
        merged, *_ = graph.nodes("MultiHeadAttention", *inputs, results=3, domain=CONTRIBUTED, num_heads=heads)
        self._new_windows += [key, value]
        return graph.linear(self._rows(merged), attention.merge.weight, attention.merge.bias)

    def _rotated(self, vectors: str) -> str:
        inputs = (vectors, self._positions, *self._rotation)
        return self._graph.node("RotaryEmbedding", *inputs, domain=CONTRIBUTED, num_heads=self._config.heads)

    def _convolution(self, rows: str, module: ConvolutionModule, layer: int) -> str:
        graph = self._graph
        rows_in = graph.plain_norm(rows, module.norm)
        (weight, gate_weight), (bias, gate_bias) = (part.chunk(2) for part in behind(module.norm, module.gate))
        gate = graph.node("Sigmoid", graph.linear(rows_in, gate_weight, gate_bias))
        gated = graph.node("Reshape", graph.node("Mul", graph.linear(rows_in, weight, bias), gate), self._as_pictures)
        past = graph.input(pasts(self._config.layers)[layer], [BATCH, 1, self._config.kernel - 1, self._config.width])
        joined = graph.node("Concat", past, gated, axis=2)
        self._new_pasts.append(gated)
        causal = self._depthwise(joined, module.causal.weight, 0)
        inside = self._depthwise(gated, module.inside.weight, module.reach)
        mixed = self._rows(graph.node("Transpose", graph.node("Add", causal, inside), perm=[0, 2, 3, 1]))
        return graph.linear(graph.silu(graph.norm(mixed, module.mixed)), module.merge.weight, module.merge.bias)

    def _depthwise(self, frames: str, weight: Tensor, reach: int) -> str:
        """Add a convolution of each channel: [batch, 1, frames, width] to [batch, width, 1, frames].

        The frames are pictures with a height of one, because onnxruntime has no kernel for sounds with many channels.
        The kernel for pictures reorders the channels anyway, so the transposition costs nothing.
        """
        graph = self._graph
        pictures = graph.node("Transpose", frames, perm=[0, 3, 1, 2])
        kernel, pads = [1, weight.shape[-1]], [0, reach, 0, reach]
        return graph.node("Conv", pictures, graph.tensor(weight), group=len(weight), kernel_shape=kernel, pads=pads)

    def _rows(self, value: str) -> str:
        """Reshape [batch, chunk, width] to [batch * chunk, width], because linear layers are fastest on rows."""
        return self._graph.node("Reshape", value, self._as_rows)

    def _batch(self, rows: str) -> str:
        return self._graph.node("Reshape", rows, self._as_batch)


# The activity network as a graph, with its states in slots.


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


# The step in which the neural language model reads a word, as a graph.


class CompiledReading(CompiledGraph):
    """Computes the same as `NeuralNetwork.read_vectors`, up to rounding.

    The bits of a row do not depend on the number of rows that are computed with it.
    """

    def __init__(self, weights: NeuralWeights) -> None:
        # A plan of the memory for each number of rows would take much memory and save little time.
        super().__init__(reading_graph(weights), plans=False)

    def __call__(self, memories: Floats, vectors: Floats) -> Floats:
        """Return the memories [rows, numbers] after words with these vectors [rows, vector]."""
        after: Floats
        [after] = self._session.run(None, {"memories": memories, "vectors": vectors})
        return after


def reading_graph(weights: NeuralWeights) -> bytes:
    """Return the graph as the content of a file. It computes the memories after words with these vectors.

    One product of rows multiplies the vectors and the last outputs.
    """
    graph, (_, vector, size) = NetworkWriter(), weights.sizes
    numbers = 2 * size + vector
    memories, vectors = graph.input("memories", [BATCH, numbers]), graph.input("vectors", [BATCH, vector])
    of_words, of_output, bias, more_bias = (
        weights.of(f"recall.{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    output, cell = graph.part(memories, 0, size), graph.part(memories, size, 2 * size)
    rows = graph.node("Concat", vectors, output, axis=1)
    gates = graph.linear(rows, np.concatenate((of_words, of_output), 1), bias + more_bias)
    input_gate, forget_gate, content, output_gate = graph.nodes("Split", gates, results=4, axis=1)
    kept_cell = graph.node("Mul", graph.node("Sigmoid", forget_gate), cell)
    new_cell = graph.node("Mul", graph.node("Sigmoid", input_gate), graph.node("Tanh", content))
    cell = graph.node("Add", kept_cell, new_cell)
    output = graph.node("Mul", graph.node("Sigmoid", output_gate), graph.node("Tanh", cell))
    expected = graph.linear(output, weights.of("expect.weight"), weights.of("expect.bias"))
    graph.output(graph.node("Concat", output, cell, expected, axis=1), [BATCH, numbers])
    return graph.content()


# Writes the layers of our networks into a graph.

BATCH: Final = "batch"
HALVED_CONTEXT: Final = 8
"""How many frames before the first one two layers of `halved` read."""
_END: Final = 2**62  # the end of a slice that goes to the end of its axis
_KINDS: Final = {torch.float32: ElementType.FLOAT, torch.int64: ElementType.INT64}


class NetworkWriter(GraphWriter):
    """Writes a graph. Each method adds a layer, and returns the name of its output."""

    def tensor(self, tensor: Tensor | NDArray[Any]) -> str:
        """Add a constant with fractions in 32 bits or whole numbers."""
        if isinstance(tensor, np.ndarray):
            tensor = torch.from_numpy(np.ascontiguousarray(tensor))
        value = (tensor.detach().float() if tensor.is_floating_point() else tensor).contiguous()
        return self.constant(value.numpy().tobytes(), value.shape, _KINDS[value.dtype])

    def linear(self, rows: str, weight: Tensor | NDArray[Any], bias: Tensor | NDArray[Any]) -> str:
        """Add a linear layer on rows. The weight has the order of axes that torch uses."""
        return self.node("Gemm", rows, self.tensor(weight.T), self.tensor(bias))

    def norm(self, rows: str, norm: nn.LayerNorm) -> str:
        """Add layer normalisation."""
        weight, bias = self.tensor(norm.weight), self.tensor(norm.bias)
        return self.node("LayerNormalization", rows, weight, bias, axis=-1, epsilon=norm.eps)

    def plain_norm(self, rows: str, norm: nn.LayerNorm) -> str:
        """Add layer normalisation without weights and biases, which `behind` has moved into the next layer."""
        like = norm.weight.detach().float()
        weight, bias = self.tensor(torch.ones_like(like)), self.tensor(torch.zeros_like(like))
        return self.node("LayerNormalization", rows, weight, bias, axis=-1, epsilon=norm.eps)

    def silu(self, value: str) -> str:
        """Add SiLU as one operation."""
        return self.node("QuickGelu", value, domain=CONTRIBUTED, alpha=1.0)

    def halved(self, frames: str, layer: nn.Conv1d) -> str:
        """Add a convolution of stride 2 on [batch, frames, width] as a product of rows. The number of frames is even.

        A product is faster for many streams, and the bits of a frame do not depend on the rest of the batch. A row is
        made of whole pairs of frames. If the layer reads an odd number of frames, the first one of a row has no weight.
        """
        [kernel], width = layer.kernel_size, layer.in_channels
        count = (kernel + 1) // 2
        pairs = self.node("Reshape", frames, self.numbers(0, -1, 2 * width))
        parts = [self.part(pairs, first, first + 1 - count) for first in range(count)]
        rows = self.node("Concat", *parts, axis=2)
        weight = pad(layer.weight.permute(2, 1, 0), (0, 0, 0, 0, 2 * count - kernel, 0)).flatten(0, 1)
        bias = torch.zeros(layer.out_channels) if layer.bias is None else layer.bias
        return self.node("Add", self.node("MatMul", rows, self.tensor(weight)), self.tensor(bias))

    def part(self, value: str, begin: int, end: int) -> str:
        """Add a slice of the second axis. An end of 0 is the end of the axis."""
        return self.node("Slice", value, self.numbers(begin), self.numbers(end or _END), self.numbers(1))


def behind(norm: nn.LayerNorm, layer: nn.Linear) -> tuple[Tensor, Tensor]:
    """Return the weight and bias of a linear layer that also does the scaling and shifting of the norm before it."""
    weight, bias = layer.weight.detach().float(), layer.bias.detach().float()
    return weight * norm.weight.detach().float(), bias + weight @ norm.bias.detach().float()
