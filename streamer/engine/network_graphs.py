"""The networks of the shipped model as graphs, which onnxruntime computes, with their states in slots.

The graphs are written from weights by their names in torch. The modules of `networks` compute the same.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from onnxruntime import InferenceSession

from streamer.engine.acoustics.bundle_files import Weights, within
from streamer.engine.acoustics.encoder_config import (
    ROTATION_PERIOD,
    SUBSAMPLING,
    EncoderConfig,
    EncoderShape,
    rotation_tables,
)
from streamer.engine.acoustics.streaming_model import Emissions, ModelState
from streamer.engine.array_memory import MappedFile
from streamer.engine.file_cache import LEAST, Part, cached_folder, fingerprint
from streamer.engine.public.sessions import WEIGHTS, new_session, open_optimised, write_optimised
from streamer.engine.waiting import Work
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


Integers = NDArray[np.int64]
Floats = NDArray[np.float32]


class CompiledEncoder(CompiledGraph):
    """Computes the same steps as the encoder in torch, up to rounding. It keeps only its configuration."""

    def __init__(self, config: EncoderConfig, weights: Weights) -> None:
        self._config = config
        if config.left_frames < config.largest_chunk:
            raise ValueError(f"left_frames {config.left_frames} is less than the longest step, {config.largest_chunk}")
        # onnxruntime computes layer normalisation and the sum before it several times slower if it fuses them. Plans of
        # the memory are left out: one for each size of a batch would take much memory and save little time.
        part = within(weights, "")
        super().__init__(
            EncoderGraph(config, part).written,
            origin=Origin("encoder", [json.dumps(config.to_json()), part.checksum], part.size),
            without=["SkipLayerNormFusion"],
            plans=False,
        )
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
            "mel": np.zeros((slots, HALVED_CONTEXT, config.mels), np.float32),
            "windows": _layers_first(2 * config.layers, slots, config.heads, config.left_frames, size),
            "conv": _layers_first(config.layers, slots, config.kernel - 1, config.width),
            "frames": np.zeros(slots, np.int64),
        }

    def step(self, state: ModelState, slots: Sequence[int], mel: Floats) -> Floats:
        """Return the next frames of each slot, [batch, chunk, width]: `mel` is [batch, 4 * chunk, mels]."""
        self._config.chunk_of(mel.shape[1])
        return self._compute(state, slots, mel)

    def whole(self, mel: Floats) -> Work[Floats]:
        """Return the frames of a complete segment, [1, frames, width]. They are computed in the longest steps."""
        state, longest, frames = self.make_state(1), self._config.whole_frames * SUBSAMPLING, []
        for first in range(0, mel.shape[1], longest):
            frames.append(self._compute(state, [0], mel[:, first : first + longest]))
            yield
        return np.concatenate(frames, axis=1)

    def _compute(self, state: ModelState, slots: Sequence[int], mel: Floats) -> Floats:
        config, chunk, numbers = self._config, mel.shape[1] // SUBSAMPLING, np.asarray(slots)
        mel_past: Floats = state["mel"]
        counts: Integers = state["frames"]
        windows_state, past = state["windows"].swapaxes(0, 1), state["conv"].swapaxes(0, 1)
        window, before, frames = _rows_of(windows_state, numbers), _rows_of(past, numbers), counts[numbers]
        recent = np.concatenate((mel_past[numbers], mel), axis=1)
        inputs = {"mel": recent, "frames": frames[:, None]}
        inputs |= zip(self._windows, window, strict=True)
        inputs |= zip(self._pasts, before[:, :, None], strict=True)
        frames_out: Floats
        frames_out, new, newest = self._session.run(None, inputs)
        mel_past[numbers], counts[numbers] = recent[:, -HALVED_CONTEXT:], frames + chunk
        newest = newest.reshape(len(past), len(numbers), chunk, config.width)[:, :, -past.shape[2] :]
        past[:, numbers] = np.concatenate((before[:, :, chunk:], newest), axis=2)
        places = (frames[:, None] + np.arange(chunk)[-config.left_frames :]) % config.left_frames
        by_head = new.reshape(len(windows_state), len(numbers), chunk, config.heads, -1)[:, :, -config.left_frames :]
        # The axes of this index come first, so the values have them first, too.
        windows_state[:, numbers[:, None], :, places] = by_head.transpose(1, 2, 0, 3, 4)
        return frames_out


def _layers_first(layers: int, slots: int, *shape: int) -> Floats:
    """Return zeros [slots, layers, ...], whose layers come first in memory."""
    return np.zeros((layers, slots, *shape), np.float32).swapaxes(0, 1)


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

    def __init__(self, config: EncoderConfig, weights: Weights) -> None:
        self._config, self._weights = config, weights
        self._graph = NetworkWriter()
        self._new_windows: list[str] = []
        self._new_pasts: list[str] = []

    def written(self) -> bytes:
        """Return the graph as the content of a file."""
        graph, config = self._graph, self._config
        width = config.width
        self._rotation = [graph.array(table) for table in rotation_tables(width // config.heads)]
        self._as_rows = graph.numbers(-1, width)
        frames = self._stem()
        self._as_batch = graph.node("Shape", frames)  # [batch, chunk, width]
        ends = ((0, 1), (1, 2))
        self._streams, self._chunk = (graph.node("Slice", self._as_batch, *map(graph.numbers, each)) for each in ends)
        shape = (self._streams, graph.numbers(1), self._chunk, graph.numbers(width))
        self._as_pictures = graph.node("Concat", *shape, axis=0)
        self._places(graph.input("frames", [BATCH, 1], ElementType.INT64))
        rows = graph.norm(self._rows(frames), layer_of(self._weights, "stem.norm"))
        for layer in range(config.layers):
            rows = self._block(rows, within(self._weights, f"blocks.{layer}"), layer)
        graph.output(self._batch(rows), [BATCH, CHUNK, width])
        # The layers lie one after another.
        graph.output(graph.node("Concat", *self._new_windows, axis=0), ["windows", CHUNK, width])
        graph.output(graph.node("Concat", *self._new_pasts, axis=0), ["pasts", 1, CHUNK, width])
        return graph.content()

    def _stem(self) -> str:
        graph, first, second = self._graph, *(layer_of(self._weights, name) for name in ("stem.first", "stem.second"))
        mel = graph.input("mel", [BATCH, "hops", self._config.mels])
        return graph.halved(graph.silu(graph.halved(mel, first)), second)

    def _places(self, frames: str) -> None:
        """Add the positions of the chunk, and the mask, which hides the part of the window that is not filled yet."""
        graph, left = self._graph, self._config.left_frames
        streams, chunk = self._streams, self._chunk
        end = graph.node("Squeeze", chunk)
        positions = graph.node("Add", frames, graph.node("Range", graph.number(0), end, graph.number(1)))
        self._positions = graph.node("Mod", positions, graph.number(ROTATION_PERIOD))
        filled = graph.node("Less", graph.array(np.arange(left)[None]), frames)
        visible, hidden = graph.array(np.zeros(1)), graph.array(np.full(1, _HIDDEN))
        window = graph.node("Unsqueeze", graph.node("Where", filled, visible, hidden), graph.numbers(1, 2))
        one, every = graph.numbers(1), graph.numbers(left)
        window = graph.node("Expand", window, graph.node("Concat", streams, one, chunk, every, axis=0))
        within = graph.node("Expand", visible, graph.node("Concat", streams, one, chunk, chunk, axis=0))
        self._mask = graph.node("Concat", window, within, axis=3)

    def _block(self, rows: str, block: Weights, layer: int) -> str:
        graph = self._graph
        rows = graph.node("Add", rows, self._feed_forward(rows, within(block, "before")))
        rows = graph.node("Add", rows, self._attention(rows, within(block, "attention"), layer))
        rows = graph.node("Add", rows, self._convolution(rows, within(block, "convolution"), layer))
        rows = graph.node("Add", rows, self._feed_forward(rows, within(block, "after")))
        return graph.norm(rows, layer_of(block, "norm"))

    def _feed_forward(self, rows: str, network: Weights) -> str:
        """Add a feed-forward network, and return half of its output."""
        graph = self._graph
        norm, first, second = (layer_of(network, name) for name in ("0", "1", "3"))  # 2 is the activation
        hidden = graph.silu(graph.linear(graph.plain_norm(rows, norm), *behind(norm, first)))
        return graph.linear(hidden, second.weight / 2, second.bias / 2)

    def _attention(self, rows: str, attention: Weights, layer: int) -> str:
        graph, heads = self._graph, self._config.heads
        norm, project, merge = (layer_of(attention, name) for name in ("norm", "project", "merge"))
        rows_in = graph.plain_norm(rows, norm)
        parts = zip(*(np.split(part, 3) for part in behind(norm, project)), strict=True)
        query, key, value = (self._batch(graph.linear(rows_in, *part)) for part in parts)
        query, key = (self._rotated(vectors) for vectors in (query, key))
        left, size = self._config.left_frames, self._config.width // heads
        past = [graph.input(f"{kind}_{layer}", [BATCH, heads, left, size]) for kind in ("keys", "values")]
        # The two empty inputs are a bias and another mask, which are not used.
        inputs = (query, key, value, "", "", self._mask, *past)
        merged, *_ = graph.nodes("MultiHeadAttention", *inputs, results=3, domain=CONTRIBUTED, num_heads=heads)
        self._new_windows += [key, value]
        return graph.linear(self._rows(merged), *merge)

    def _rotated(self, vectors: str) -> str:
        inputs = (vectors, self._positions, *self._rotation)
        return self._graph.node("RotaryEmbedding", *inputs, domain=CONTRIBUTED, num_heads=self._config.heads)

    def _convolution(self, rows: str, module: Weights, layer: int) -> str:
        graph = self._graph
        norm, both, mixing, merge = (layer_of(module, name) for name in ("norm", "gate", "mixed", "merge"))
        rows_in = graph.plain_norm(rows, norm)
        (weight, gate_weight), (bias, gate_bias) = (np.split(part, 2) for part in behind(norm, both))
        gate = graph.node("Sigmoid", graph.linear(rows_in, gate_weight, gate_bias))
        gated = graph.node("Reshape", graph.node("Mul", graph.linear(rows_in, weight, bias), gate), self._as_pictures)
        past = graph.input(pasts(self._config.layers)[layer], [BATCH, 1, self._config.kernel - 1, self._config.width])
        joined = graph.node("Concat", past, gated, axis=2)
        self._new_pasts.append(gated)
        causal = self._depthwise(joined, module["causal.weight"], 0)
        inside = self._depthwise(gated, module["inside.weight"], self._config.chunk_kernel // 2)
        mixed = self._rows(graph.node("Transpose", graph.node("Add", causal, inside), perm=[0, 2, 3, 1]))
        return graph.linear(graph.silu(graph.norm(mixed, mixing)), *merge)

    def _depthwise(self, frames: str, weight: Floats, reach: int) -> str:
        """Add a convolution of each channel: [batch, 1, frames, width] to [batch, width, 1, frames].

        The frames are pictures with a height of one, because onnxruntime has no kernel for sounds with many channels.
        The kernel for pictures reorders the channels anyway, so the transposition costs nothing.
        """
        graph = self._graph
        pictures = graph.node("Transpose", frames, perm=[0, 3, 1, 2])
        kernel, pads = [1, weight.shape[-1]], [0, reach, 0, reach]
        return graph.node("Conv", pictures, graph.array(weight), group=len(weight), kernel_shape=kernel, pads=pads)

    def _rows(self, value: str) -> str:
        """Reshape [batch, chunk, width] to [batch * chunk, width], because linear layers are fastest on rows."""
        return self._graph.node("Reshape", value, self._as_rows)

    def _batch(self, rows: str) -> str:
        return self._graph.node("Reshape", rows, self._as_batch)


# The heads of the encoder as a graph.


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


# The activity network as a graph, with its states in slots.


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
    hidden = graph.silu(graph.halved(graph.silu(graph.halved(recent, first)), second))
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


# The step in which the neural language model reads a word, as a graph.


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
    of_words = graph.node("Mul", graph.product(halves, 1.0, "recall.weight_ih_l0", halves=True), scales)
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


# Writes the layers of our networks into a graph.

BATCH: Final = "batch"
HALVED_CONTEXT: Final = 8
"""How many frames before the first one two layers of `halved` read."""
_END: Final = 2**62  # the end of a slice that goes to the end of its axis
_NORM_FLOOR: Final = 1e-5  # what layer normalisation in torch adds to the variance


class Layer(NamedTuple):
    """The weight and bias of a layer. The weight has the order of axes that torch uses."""

    weight: Floats
    bias: Floats


def layer_of(weights: Weights, name: str) -> Layer:
    """Return the layer with this name."""
    return Layer(weights[f"{name}.weight"], weights[f"{name}.bias"])


def behind(norm: Layer, layer: Layer) -> Layer:
    """Return a linear layer that also does the scaling and shifting of the norm before it."""
    return Layer(layer.weight * norm.weight, layer.bias + layer.weight @ norm.bias)


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

    def plain_norm(self, rows: str, norm: Layer) -> str:
        """Add layer normalisation without weights and biases, which `behind` has moved into the next layer."""
        return self.norm(rows, Layer(np.ones_like(norm.weight), np.zeros_like(norm.bias)))

    def silu(self, value: str) -> str:
        """Add SiLU as one operation."""
        return self.node("QuickGelu", value, domain=CONTRIBUTED, alpha=1.0)

    def halved(self, frames: str, layer: Layer) -> str:
        """Add a convolution of stride 2 on [batch, frames, width] as a product of rows. The number of frames is even.

        A product is faster for many streams, and the bits of a frame do not depend on the rest of the batch. A row is
        made of whole pairs of frames. If the layer reads an odd number of frames, the first one of a row has no weight.
        """
        outputs, width, kernel = layer.weight.shape
        count = (kernel + 1) // 2
        pairs = self.node("Reshape", frames, self.numbers(0, -1, 2 * width))
        parts = [self.part(pairs, first, first + 1 - count) for first in range(count)]
        rows = self.node("Concat", *parts, axis=2)
        weight = np.pad(layer.weight.transpose(2, 1, 0), ((2 * count - kernel, 0), (0, 0), (0, 0)))
        product = self.node("MatMul", rows, self.array(weight.reshape(-1, outputs)))
        return self.node("Add", product, self.array(layer.bias))

    def part(self, value: str, begin: int, end: int) -> str:
        """Add a slice of the second axis. An end of 0 is the end of the axis."""
        return self.node("Slice", value, self.numbers(begin), self.numbers(end or _END), self.numbers(1))


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
        return self.node("Add", self.product(coarse, _COARSE, name, bias), self.product(fine, _FINE, name))

    def product(self, rows: str, scale: float, name: str, bias: Floats | None = None, *, halves: bool = False) -> str:
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
