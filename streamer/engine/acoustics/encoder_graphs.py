"""The encoders of the shipped model as graphs, which onnxruntime computes, with their states in slots."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.acoustics.bundle_files import PartOfWeights, Weights, within
from streamer.engine.acoustics.encoder_config import (
    FIRST_FRAMES,
    LOUDNESS_FLOOR,
    LOUDNESS_PRIOR,
    OVERLAP,
    STEM_CONTEXT,
    STEM_SAMPLES,
    STEM_STRIDES,
    SUBSAMPLING,
    AnyEncoder,
    EncoderConfig,
    MoonshineConfig,
)
from streamer.engine.acoustics.streaming_model import Floats, ModelState
from streamer.engine.network_graphs import (
    BATCH,
    CHUNK,
    HALVED_CONTEXT,
    CompiledGraph,
    Layer,
    NetworkWriter,
    Origin,
    Precision,
    layer_of,
)
from streamer.engine.waiting import Work
from streamer.models.graph_writer import CONTRIBUTED
from streamer.models.onnx_file import ElementType

Integers = NDArray[np.int64]
Inputs = Mapping[str, NDArray[Any]]


class CompiledEncoder(CompiledGraph, ABC):
    """Computes the same steps as an encoder in torch, up to rounding. It keeps only its configuration.

    The inputs of a step are features or samples. Its state has the keys and values of the past frames.
    """

    context = 0  # how many inputs before a step are among those of the step
    per_frame: int  # how many inputs a frame of the blocks has

    def __init__(self, config: AnyEncoder, graph: EncoderGraph, weights: PartOfWeights, precision: Precision) -> None:
        if config.left_frames < config.largest_chunk:
            raise ValueError(f"left_frames {config.left_frames} is less than the longest step, {config.largest_chunk}")
        # onnxruntime computes layer normalisation and the sum before it several times slower if it fuses them. Plans of
        # the memory are left out: one for each size of a batch would take much memory and save little time.
        super().__init__(
            graph.written,
            origin=Origin("encoder", [json.dumps(config.to_json()), weights.checksum, precision.value], weights.size),
            without=["SkipLayerNormFusion"],
            plans=False,
        )
        self._shape = config
        self._left = config.left_frames * config.pooled
        self._windows = windows(config.layers)

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots.

        In memory, the layers come before the slots, so that the graph can read each layer of a batch in one piece. A
        window is a ring buffer of the frames before the chunk. The graph adds the chunk itself.
        """
        shape = self._shape
        return {
            "windows": _layers_first(2 * shape.layers, slots, shape.heads, self._left, shape.width // shape.heads),
            "frames": np.zeros(slots, np.int64),
        }

    def step(self, state: ModelState, slots: Sequence[int], inputs: Floats) -> Floats:
        """Return the next frames of each slot, [batch, chunk, width]."""
        shape, read = self._shape, inputs.shape[1] - self.context
        shape.frames_of(read * shape.frame_samples // (self.per_frame * shape.pooled))
        return self._compute(state, np.asarray(slots), inputs)

    def whole(self, inputs: Floats) -> Work[Floats]:
        """Return the frames of a complete segment, [1, frames, width]. They are computed in the longest steps."""
        state, frames = self.make_state(1), []
        longest = self._shape.whole_frames * self._shape.pooled * self.per_frame
        for first in range(0, inputs.shape[1] - self.context, longest):
            part = inputs[:, first : first + self.context + longest]
            frames.append(self._compute(state, np.zeros(1, np.int64), part))
            yield
        return np.concatenate(frames, axis=1)

    @abstractmethod
    def _own_inputs(self, state: ModelState, slots: Integers, inputs: Floats) -> Inputs:
        """Return what the graph reads beside the windows."""

    @abstractmethod
    def _keep(self, state: ModelState, slots: Integers, read: Inputs, outputs: Sequence[Floats]) -> None:
        """Store what the next step needs of what the graph has read, and of its own outputs."""

    def _compute(self, state: ModelState, slots: Integers, inputs: Floats) -> Floats:
        counts: Integers = state["frames"]
        windows_state, frames = state["windows"].swapaxes(0, 1), counts[slots]
        window = rows_of(windows_state, slots)
        read = {"frames": frames[:, None], **self._own_inputs(state, slots, inputs)}
        frames_out: Floats
        frames_out, new, *others = self._session.run(None, read | dict(zip(self._windows, window, strict=True)))
        self._keep(state, slots, read, others)
        chunk, left = new.shape[1], self._left
        counts[slots] = frames + chunk
        places = (frames[:, None] + np.arange(chunk)[-left:]) % left
        by_head = new.reshape(len(windows_state), len(slots), chunk, self._shape.heads, -1)[:, :, -left:]
        # The axes of this index come first, so the values have them first, too.
        windows_state[:, slots[:, None], :, places] = by_head.transpose(1, 2, 0, 3, 4)
        return frames_out


def compiled_encoder(config: AnyEncoder, weights: Weights, precision: Precision = Precision.BYTES) -> CompiledEncoder:
    """Return an encoder of this kind as a graph. The names of its weights do not begin with `encoder.`."""
    if isinstance(config, EncoderConfig):
        return CompiledConformer(config, weights, precision)
    return CompiledMoonshine(config, weights, precision)


def _layers_first(layers: int, slots: int, *shape: int) -> Floats:
    """Return zeros [slots, layers, ...], whose layers come first in memory."""
    return np.zeros((layers, slots, *shape), np.float32).swapaxes(0, 1)


def rows_of(state: Floats, slots: Integers) -> Floats:
    """Return the state of these slots, [layers, batch, ...]. It is not copied if the slots lie side by side."""
    first, count = int(slots[0]), len(slots)
    if slots.tolist() == list(range(first, first + count)):
        return state[:, first : first + count]
    return state.take(slots, axis=1)


_HIDDEN: Final = -1e9  # softmax turns this into zero


def windows(layers: int) -> list[str]:
    """Return the names of the inputs for the past keys and values, in the order of the state of a slot."""
    return [f"{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]


class EncoderGraph(ABC):
    """Writes a step of an encoder as a graph, for batches of any size and chunks of any length.

    Its inputs are `frames` (how many a slot has computed), the names in `windows`, and those of its kind. Its outputs
    are the frames, the keys and values of the chunk in the order of `windows`, and those of its kind.
    """

    def __init__(self, config: AnyEncoder, weights: Weights, graph: NetworkWriter) -> None:
        self._shape, self._weights, self._graph = config, weights, graph
        self._new_windows: list[str] = []

    def written(self) -> bytes:
        """Return the graph as the content of a file."""
        graph, shape = self._graph, self._shape
        self._rotation = [graph.array(table) for table in shape.rotation_tables]
        self._as_rows = graph.numbers(-1, shape.width)
        self._frames = graph.input("frames", [BATCH, 1], ElementType.INT64)
        frames = self._stem()
        self._as_batch = graph.node("Shape", frames)  # [batch, chunk, width]
        ends = ((0, 1), (1, 2))
        self._streams, self._chunk = (graph.node("Slice", self._as_batch, *map(graph.numbers, each)) for each in ends)
        self._places()
        rows = self._rows(frames)
        for layer in range(shape.layers):
            rows = self._block(rows, within(self._weights, f"blocks.{layer}"), layer)
        graph.output(self._read(rows), [BATCH, "frames_read", shape.frame_width])
        # The layers lie one after another.
        graph.output(graph.node("Concat", *self._new_windows, axis=0), ["windows", CHUNK, shape.width])
        self._own_outputs()
        return graph.content()

    @abstractmethod
    def _stem(self) -> str:
        """Add the inputs of this kind, and return the frames that the first block reads, [batch, chunk, width]."""

    @abstractmethod
    def _block(self, rows: str, block: Weights, layer: int) -> str:
        """Add one block on rows."""

    @abstractmethod
    def _read(self, rows: str) -> str:
        """Return the frames that the heads read, [batch, frames, frame width], from the rows of the last block."""

    @abstractmethod
    def _own_outputs(self) -> None:
        """Add the outputs of this kind."""

    def _places(self) -> None:
        """Add the positions of the chunk, and the mask, which hides the part of the window that is not filled yet."""
        graph, left = self._graph, self._shape.left_frames * self._shape.pooled
        streams, chunk = self._streams, self._chunk
        end = graph.node("Squeeze", chunk)
        positions = graph.node("Add", self._frames, graph.node("Range", graph.number(0), end, graph.number(1)))
        period = len(self._shape.rotation_tables[0])
        self._positions = graph.node("Mod", positions, graph.number(period))
        filled = graph.node("Less", graph.array(np.arange(left)[None]), self._frames)
        visible, hidden = graph.array(np.zeros(1)), graph.array(np.full(1, _HIDDEN))
        window = graph.node("Unsqueeze", graph.node("Where", filled, visible, hidden), graph.numbers(1, 2))
        one, every = graph.numbers(1), graph.numbers(left)
        window = graph.node("Expand", window, graph.node("Concat", streams, one, chunk, every, axis=0))
        within = graph.node("Expand", visible, graph.node("Concat", streams, one, chunk, chunk, axis=0))
        self._mask = graph.node("Concat", window, within, axis=3)

    def _attention(self, rows: str, attention: Weights, layer: int) -> str:
        graph, heads = self._graph, self._shape.heads
        norm, project, merge = (layer_of(attention, name) for name in ("norm", "project", "merge"))
        rows_in = graph.norm_before(rows, norm)
        parts = zip(*(np.split(part, 3) for part in graph.behind(norm, project)), strict=True)
        query, key, value = (self._batch(graph.linear(rows_in, *part)) for part in parts)
        query, key = (self._rotated(vectors) for vectors in (query, key))
        left, size = self._shape.left_frames * self._shape.pooled, self._shape.width // heads
        past = [graph.input(f"{kind}_{layer}", [BATCH, heads, left, size]) for kind in ("keys", "values")]
        # The two empty inputs are a bias and another mask, which are not used.
        inputs = (query, key, value, "", "", self._mask, *past)
        merged, *_ = graph.nodes("MultiHeadAttention", *inputs, results=3, domain=CONTRIBUTED, num_heads=heads)
        self._new_windows += [key, value]
        return graph.linear(self._rows(merged), *merge)

    def _rotated(self, vectors: str) -> str:
        inputs = (vectors, self._positions, *self._rotation)
        return self._graph.node("RotaryEmbedding", *inputs, domain=CONTRIBUTED, num_heads=self._shape.heads)

    def _rows(self, value: str) -> str:
        """Reshape [batch, chunk, width] to [batch * chunk, width], because linear layers are fastest on rows."""
        return self._graph.node("Reshape", value, self._as_rows)

    def _batch(self, rows: str) -> str:
        return self._graph.node("Reshape", rows, self._as_batch)


# The Conformer, which reads features.


class CompiledConformer(CompiledEncoder):
    """The Conformer as a graph. Its inputs are features."""

    per_frame = SUBSAMPLING

    def __init__(self, config: EncoderConfig, weights: Weights, precision: Precision) -> None:
        part = within(weights, "")
        super().__init__(config, ConformerGraph(config, part, precision.writer()), part, precision)
        self._config, self._pasts = config, pasts(config.layers)

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots, also of the features and of the convolutions."""
        config = self._config
        return {
            "mel": np.zeros((slots, HALVED_CONTEXT, config.mels), np.float32),
            "conv": _layers_first(config.layers, slots, config.kernel - 1, config.width),
            **super().make_state(slots),
        }

    def _own_inputs(self, state: ModelState, slots: Integers, inputs: Floats) -> Inputs:
        past = rows_of(state["conv"].swapaxes(0, 1), slots)[:, :, None]
        mel = np.concatenate((state["mel"][slots], inputs), axis=1)
        return {"mel": mel, **dict(zip(self._pasts, past, strict=True))}

    def _keep(self, state: ModelState, slots: Integers, read: Inputs, outputs: Sequence[Floats]) -> None:
        state["mel"][slots] = read["mel"][:, -HALVED_CONTEXT:]
        past, [gated] = state["conv"].swapaxes(0, 1), outputs
        kept, chunk = past.shape[2], gated.shape[2]
        newest = gated.reshape(len(past), len(slots), chunk, -1)[:, :, -kept:]
        past[:, slots] = np.concatenate((rows_of(past, slots)[:, :, chunk:], newest), axis=2)


def pasts(layers: int) -> list[str]:
    """Return the names of the inputs for the past frames of the convolutions, in the order of the state of a slot."""
    return [f"past_{layer}" for layer in range(layers)]


class ConformerGraph(EncoderGraph):
    """Also has the inputs `mel` and the names in `pasts`, and an output for the inputs of the convolutions."""

    def __init__(self, config: EncoderConfig, weights: Weights, graph: NetworkWriter) -> None:
        super().__init__(config, weights, graph)
        self._config = config
        self._new_pasts: list[str] = []

    def _stem(self) -> str:
        graph, first, second = self._graph, *(layer_of(self._weights, name) for name in ("stem.first", "stem.second"))
        mel = graph.input("mel", [BATCH, "hops", self._config.mels])
        frames = graph.strided(graph.silu(graph.strided(mel, first, 2)), second, 2)
        return graph.norm(frames, layer_of(self._weights, "stem.norm"))

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
        hidden = graph.silu(graph.linear(graph.norm_before(rows, norm), *graph.behind(norm, first)))
        return graph.linear(hidden, second.weight / 2, second.bias / 2)

    def _convolution(self, rows: str, module: Weights, layer: int) -> str:
        graph, config = self._graph, self._config
        norm, both, mixing, merge = (layer_of(module, name) for name in ("norm", "gate", "mixed", "merge"))
        rows_in = graph.norm_before(rows, norm)
        (weight, gate_weight), (bias, gate_bias) = (np.split(part, 2) for part in graph.behind(norm, both))
        gate = graph.node("Sigmoid", graph.linear(rows_in, gate_weight, gate_bias))
        shape = (self._streams, graph.numbers(1), self._chunk, graph.numbers(config.width))
        as_pictures = graph.node("Concat", *shape, axis=0)
        gated = graph.node("Reshape", graph.node("Mul", graph.linear(rows_in, weight, bias), gate), as_pictures)
        past = graph.input(pasts(config.layers)[layer], [BATCH, 1, config.kernel - 1, config.width])
        joined = graph.node("Concat", past, gated, axis=2)
        self._new_pasts.append(gated)
        causal = self._depthwise(joined, module["causal.weight"], 0)
        inside = self._depthwise(gated, module["inside.weight"], config.chunk_kernel // 2)
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

    def _read(self, rows: str) -> str:
        return self._batch(rows)

    def _own_outputs(self) -> None:
        # The layers lie one after another.
        joined = self._graph.node("Concat", *self._new_pasts, axis=0)
        self._graph.output(joined, ["pasts", 1, CHUNK, self._config.width])


# The encoder that begins from Moonshine's weights, which reads samples.


class CompiledMoonshine(CompiledEncoder):
    """An encoder that reads samples as a graph. Its inputs are samples, after those before them."""

    context = STEM_CONTEXT
    per_frame = STEM_SAMPLES

    def __init__(self, config: MoonshineConfig, weights: Weights, precision: Precision) -> None:
        part = within(weights, "")
        super().__init__(config, MoonshineGraph(config, part, precision.writer()), part, precision)

    def make_state(self, slots: int) -> ModelState:
        """Return a fresh state for this many slots, also of the loudness."""
        return {"loudness": np.zeros((slots, 2), np.float32), **super().make_state(slots)}

    def _own_inputs(self, state: ModelState, slots: Integers, inputs: Floats) -> Inputs:
        return {"samples": inputs[:, :, None], "loudness": state["loudness"][slots]}

    def _keep(self, state: ModelState, slots: Integers, read: Inputs, outputs: Sequence[Floats]) -> None:
        [after] = outputs
        state["loudness"][slots] = after[:, 0]


class MoonshineGraph(EncoderGraph):
    """Also has the inputs `samples` and `loudness`, and an output for the loudness after the step.

    The loudness has two sums over the segment so far: of what the first convolution gives, and of its square.
    """

    def _stem(self) -> str:
        graph, stem, [first_stride, second_stride, third_stride] = (
            self._graph,
            within(self._weights, "stem"),
            STEM_STRIDES,
        )
        samples = graph.input("samples", [BATCH, "samples", 1])
        first = Layer(stem["first.weight"], np.zeros(self._shape.width, np.float32))
        hidden = graph.node("Tanh", graph.strided(graph.after_zeros(samples, 1), first, first_stride))
        scale, second = layer_of(stem, "norm"), layer_of(stem, "second")
        # The scaling and shifting of the norm are those of the layer behind it.
        shifted = second.bias + np.einsum("oik,i->o", second.weight, scale.bias)
        second = Layer(second.weight * scale.weight[:, None], shifted)
        hidden = self._normalised(hidden, *stem["level"].tolist())
        hidden = graph.after_zeros(graph.gelu(graph.strided(hidden, second, second_stride)), 1)
        return graph.gelu(graph.strided(hidden, layer_of(stem, "third"), third_stride))

    def _normalised(self, hidden: str, usual_mean: float, usual_square: float) -> str:
        """Add the statistics of the segment so far, and return the frames normalised by them."""
        graph = self._graph
        loudness = graph.node("Unsqueeze", graph.input("loudness", [BATCH, 2]), graph.numbers(1))
        moments = [graph.node("ReduceMean", each, axes=[2]) for each in (hidden, graph.node("Mul", hidden, hidden))]
        sums = graph.node("CumSum", graph.node("Concat", *moments, axis=2), graph.number(1))
        sums = graph.node("Add", sums, loudness)
        self._loudness = graph.part(sums, -1 - OVERLAP, -OVERLAP)
        heard = graph.node("Mul", self._frames, graph.number(FIRST_FRAMES))
        length = graph.node(
            "Squeeze", graph.node("Slice", graph.node("Shape", hidden), graph.numbers(1), graph.numbers(2))
        )
        numbers = graph.node("Range", graph.number(1), graph.node("Add", length, graph.number(1)), graph.number(1))
        count = graph.node("Add", graph.node("Add", heard, numbers), graph.number(LOUDNESS_PRIOR))
        count = graph.node("Unsqueeze", graph.node("Cast", count, to=int(ElementType.FLOAT)), graph.numbers(2))
        usual = LOUDNESS_PRIOR * np.array([usual_mean, usual_square])
        means = graph.node("Div", graph.node("Add", sums, graph.array(usual)), count)
        mean, square = graph.nodes("Split", means, results=2, axis=2)
        variance = graph.node("Sub", square, graph.node("Mul", mean, mean))
        deviation = graph.node("Sqrt", graph.node("Add", variance, graph.array(np.array(LOUDNESS_FLOOR))))
        return graph.node("Div", graph.node("Sub", hidden, mean), deviation)

    def _block(self, rows: str, block: Weights, layer: int) -> str:
        graph = self._graph
        rows = graph.node("Add", rows, self._attention(rows, within(block, "attention"), layer))
        norm, first, second = (layer_of(block, f"feed.{name}") for name in ("0", "1", "3"))  # 2 is the activation
        hidden = graph.gelu(graph.linear(graph.norm_before(rows, norm), *graph.behind(norm, first)))
        return graph.node("Add", rows, graph.linear(hidden, *second))

    def _read(self, rows: str) -> str:
        """Return the frames as the heads read them: normalised, and several side by side."""
        graph, shape = self._graph, self._shape
        normed = graph.norm(rows, layer_of(self._weights, f"norms.{shape.layers}"))
        frames = graph.node("Concat", self._streams, graph.numbers(-1, shape.frame_width), axis=0)
        return graph.node("Reshape", normed, frames)

    def _own_outputs(self) -> None:
        self._graph.output(self._loudness, [BATCH, 1, 2])
