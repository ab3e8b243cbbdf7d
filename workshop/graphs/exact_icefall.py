"""Makes folders with small models in the formats of icefall. They recognise nothing sensible, but compute exactly.

All weights are -1, 0 or 1 and everything is rounded, so any batch, processor and version of onnxruntime gives the same
bits. Every frame depends on all states and on the age of the stream: a mixed-up slot shows at once. Silence gives no
token, so segments end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic

TOKENS: Final = ("<blk>", "<sos/eos>", "<unk>", *(f"▁{letter}" for letter in "ABCDEFG"), *"HIJKLMNOPQRST", "'")
MELS, HIDDEN, JOINED, CONTEXT = 80, 12, 16, 2
SOFTNESS: Final = 0.25  # the factor of the scores of a model that is not exact
_QUIET: Final = -40  # four times the logarithm of a mean energy; below it is silence
_AGE_UNIT: Final = 1 / 16  # the factor of ages

Batch = int | str


@dataclass(frozen=True)
class State:
    """A state: its shape with 1 for the streams, and the axis that counts them.

    `grows`: the state is a counter that grows by this number in every step. `half`: it has half precision.
    """

    name: str
    shape: tuple[int, ...]
    axis: int
    grows: int = 0
    half: bool = False

    @property
    def type(self) -> int:
        """The type of the numbers."""
        return TensorProto.INT64 if self.grows else TensorProto.FLOAT16 if self.half else TensorProto.FLOAT

    def port(self, batch: Batch) -> tuple[int | str, ...]:
        """Return the shape of the input and the output."""
        return tuple(batch if at == self.axis else size for at, size in enumerate(self.shape))


@dataclass(frozen=True)
class ExactEncoder:
    """An encoder of a family: it reads `window` feature frames, `chunk` frames after the window before.

    `age`: the name of an input with the number of feature frames before the window, which is no state.
    """

    kind: str
    chunk: int
    window: int
    states: tuple[State, ...]
    metadata: Mapping[str, object]
    age: str = ""


def make_ctc(folder: Path, encoder: ExactEncoder, seed: int, batch: Batch, tokens: Sequence[str] = TOKENS) -> Path:
    """Make a folder with a CTC model. `tokens`: the same number of other tokens, such as another script."""
    builder = GraphBuilder(seed)
    frames, states = _encoder(builder, encoder, batch)
    _save(builder, folder / "model.onnx", ("log_probs", add_ctc(builder, frames), len(TOKENS)), states, encoder, batch)
    write_tokens(folder, tokens)
    return folder


def make_transducer(folder: Path, encoder: ExactEncoder, seed: int, batch: Batch, *, exact: bool = True) -> Path:
    """Make a folder with a transducer: encoder, decoder and joiner.

    With `exact`, all numbers are whole, so many sequences of tokens are equally likely. Without it, decoder and joiner
    have random weights: no two sequences are equally likely, and several are nearly as likely as the best. Then the
    folder also has the pieces of the tokens.
    """
    builder = GraphBuilder(seed)
    frames, states = _encoder(builder, encoder, batch)
    _save(builder, folder / "encoder-epoch-1-avg-1.onnx", ("encoder_out", frames, JOINED), states, encoder, batch)
    return _make_predictor_and_joiner(folder, seed, batch, exact=exact)


def _make_predictor_and_joiner(folder: Path, seed: int, batch: Batch, *, exact: bool) -> Path:
    predictor = GraphBuilder(seed + 1)
    tokens = predictor.input("y", (batch, CONTEXT), TensorProto.INT64)
    nothing = predictor.constant(0, np.int64)
    is_token = predictor.node("Cast", predictor.node("GreaterOrEqual", tokens, nothing), to=TensorProto.FLOAT)
    table = predictor.constant(3 * weights(predictor, len(TOKENS), JOINED, exact=exact))
    rows = predictor.node("Gather", table, predictor.node("Max", tokens, nothing))
    weighed = predictor.node("Mul", rows, predictor.node("Unsqueeze", is_token, predictor.constant([2], np.int64)))
    places = predictor.constant(np.array([[[1.0], [2.0]]]))  # the order of the context matters
    predicted = predictor.node("Mul", weighed, places)
    predicted = predictor.node("ReduceSum", predicted, predictor.constant([1], np.int64), keepdims=0)
    predictor.output(predicted, "decoder_out", (batch, JOINED))
    if not exact:
        write_pieces(folder, predictor)
    predictor.save(folder / "decoder-epoch-1-avg-1.onnx", {"context_size": CONTEXT, "vocab_size": len(TOKENS)})
    joiner = GraphBuilder(seed + 2)
    ports = [joiner.input(name, (batch, JOINED)) for name in ("encoder_out", "decoder_out")]
    joined = joiner.node("Clip", joiner.node("Add", *ports), joiner.constant(-8), joiner.constant(8))
    scores = joiner.node("MatMul", joined, joiner.constant(weights(joiner, JOINED, len(TOKENS), exact=exact)))
    scores = joiner.node("Add", scores, joiner.constant(offsets(joiner, 20)))
    if not exact:
        scores = joiner.node("Mul", scores, joiner.constant(SOFTNESS))
    joiner.output(scores, "logit", (batch, len(TOKENS)))
    joiner.save(folder / "joiner-epoch-1-avg-1.onnx", {"joiner_dim": JOINED})
    write_tokens(folder)
    return folder


def make_int8_folder(folder: Path, seed: int = 0) -> Path:
    """Make a folder with a Zipformer-2 transducer in int8 with operators that are not those of a usual export.

    onnxruntime itself writes them when it optimises a graph in int8.
    """
    make_transducer_folder(folder, seed, exact=False)
    for path in list(folder.glob("*.onnx")):
        quantised = path.with_suffix(".int8.onnx")
        quantize_dynamic(path, quantised, op_types_to_quantize=["MatMul"])
        path.unlink()
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(str(quantised), options, providers=["CPUExecutionProvider"])
        quantised.unlink()
    return folder


def random_phrases(random: np.random.Generator, number: int) -> list[str]:
    """Draw phrases of one or two words that these models have tokens for."""
    return [" ".join(_word(random) for _ in range(random.integers(1, 3))) for _ in range(number)]


def listed(numbers: Sequence[int]) -> str:
    """Return numbers as metadata has them."""
    return ",".join(map(str, numbers))


def write_tokens(folder: Path, tokens: Sequence[str] = TOKENS) -> None:
    """Write the table of tokens."""
    lines = (f"{token} {number}\n" for number, token in enumerate(tokens))
    (folder / "tokens.txt").write_text("".join(lines), encoding="utf-8")


def add_ctc(builder: GraphBuilder, frames: str, blank: int = 0, likelier: int = 30) -> str:
    """Add the logarithms of the probabilities of all tokens in these frames."""
    scores = builder.node("MatMul", frames, builder.constant(builder.signs(JOINED, len(TOKENS))))
    scores = builder.node("Add", scores, builder.constant(offsets(builder, likelier, blank)))
    return builder.node("LogSoftmax", scores, axis=-1)


def add_hidden(
    builder: GraphBuilder,
    features: str,
    window: int,
    chunk: int,
    subsampling: int = 4,
    mels: int = MELS,
    quiet: int = _QUIET,
) -> str:
    """Add one row of hidden numbers for several feature frames. Frames below `quiet` are zero."""
    centred = add_centred(builder, features, quiet)
    early, late = (
        builder.node("Slice", centred, *(builder.constant([at], np.int64) for at in (begin, begin + chunk, 1)))
        for begin in (0, window - chunk)
    )
    return add_rows(builder, builder.node("Add", early, late), subsampling, mels)


def add_centred(builder: GraphBuilder, features: str, quiet: int, scale: float = 4.0, most: float = 96.0) -> str:
    """Add the features as whole numbers without the mean of their frame. Frames below `quiet` are zero."""
    steps = builder.whole(features, scale, most)
    mean = builder.node(
        "ReduceSum",
        builder.node("Slice", steps, *(builder.constant([at], np.int64) for at in (0, 64, 2))),
        builder.constant([2], np.int64),
    )
    mean = builder.whole(mean, 1 / 64, 96.0)
    loud = builder.node("Clip", builder.node("Sub", mean, builder.constant(quiet)), *map(builder.constant, (0, 1)))
    return builder.node("Mul", builder.node("Sub", steps, mean), loud)


def add_rows(builder: GraphBuilder, frames: str, subsampling: int, mels: int) -> str:
    """Add one row of hidden numbers for several frames of whole numbers."""
    rows = builder.node("Reshape", frames, builder.constant([0, -1, subsampling * mels], np.int64))
    mixed = builder.node("MatMul", rows, builder.constant(builder.signs(subsampling * mels, HIDDEN)))
    return builder.whole(mixed, 1 / 32, 16.0)


def add_frames(builder: GraphBuilder, hidden: str, memory: str) -> str:
    """Add the frames of an encoder, from its hidden numbers and its states. They are zero where these are zero."""
    sounding = builder.node("Abs", hidden)
    sounding = builder.node("Clip", sounding, *map(builder.constant, (0, 1)))
    turned = builder.node("Mul", memory, builder.constant(builder.signs(HIDDEN)))
    hidden = builder.node("Add", hidden, builder.node("Mul", turned, sounding))
    frames = builder.node("MatMul", hidden, builder.constant(builder.signs(HIDDEN, JOINED)))
    return builder.whole(frames, 1 / 4, 8.0)


def pooled(builder: GraphBuilder, hidden: str) -> str:
    """Add the sum of the hidden numbers of a step, for the states."""
    summed = builder.node("ReduceSum", hidden, builder.constant([1], np.int64), keepdims=0)
    return builder.whole(summed, 1 / 4, 16.0)


def _word(random: np.random.Generator) -> str:
    return "".join([random.choice(list("ABCDEFG")), *random.choice(list("HIJKLMNOPQRST"), random.integers(0, 3))])


def weights(builder: GraphBuilder, *shape: int, exact: bool) -> NDArray[np.float32]:
    """Draw weights: signs, or any numbers if the model need not be exact."""
    if exact:
        return builder.signs(*shape)
    return builder.random.normal(0, 0.8, shape).astype(np.float32)


def _encoder(builder: GraphBuilder, encoder: ExactEncoder, batch: Batch) -> tuple[str, list[str]]:
    """Add an encoder. Returns its frames, and the new values of its states."""
    features = builder.input("x", (batch, encoder.window, MELS))
    hidden = add_hidden(builder, features, encoder.window, encoder.chunk)
    states, memory = add_states(builder, pooled(builder, hidden), encoder.states, batch, encoder.age)
    return add_frames(builder, hidden, memory), states


def add_states(
    builder: GraphBuilder, hidden: str, states: Sequence[State], batch: Batch, age: str = ""
) -> tuple[list[str], str]:
    """Add the new values of all states, and a number from 0 to 15 for each stream that depends on all of them."""
    results: list[str] = []
    total = builder.constant(0)
    for number, state in enumerate(states):
        port = builder.input(state.name, state.port(batch), state.type)
        value = builder.node("Cast", port, to=TensorProto.FLOAT)
        others = [at for at in range(len(state.shape)) if at != state.axis]
        if state.grows:
            results.append(builder.node("Add", port, builder.constant(state.grows, np.int64)))
            weight = _AGE_UNIT
        else:
            results.append(builder.node("Cast", _renewed(builder, value, hidden, state), to=state.type))
            weight = 1 + number % 3
        if others:
            value = builder.node("ReduceSum", value, builder.constant(others, np.int64), keepdims=0)
        total = builder.node("Add", total, builder.node("Mul", value, builder.constant(weight)))
    if age:
        value = builder.node("Cast", builder.input(age, (batch,), TensorProto.INT64), to=TensorProto.FLOAT)
        total = builder.node("Add", total, builder.node("Mul", value, builder.constant(_AGE_UNIT)))
    return results, add_rest(builder, total)


def add_rest(builder: GraphBuilder, total: str) -> str:
    """Add a number from 0 to 15 for each stream: the rest of a whole number."""
    turns = builder.node("Floor", builder.node("Mul", total, builder.constant(1 / 16)))
    rest = builder.node("Sub", total, builder.node("Mul", turns, builder.constant(16)))
    return builder.node("Unsqueeze", rest, builder.constant([1, 2], np.int64))


def _renewed(builder: GraphBuilder, value: str, hidden: str, state: State) -> str:
    """Add half of the old state and the hidden numbers."""
    shape = state.shape
    change = builder.whole(
        builder.node("MatMul", hidden, builder.constant(builder.signs(HIDDEN, shape[-1]))), 1 / 2, 16.0
    )
    between = len(shape) - 2 - state.axis
    if between:
        change = builder.node("Unsqueeze", change, builder.constant(list(range(1, 1 + between)), np.int64))
    added = builder.node("Mul", change, builder.constant(builder.signs(*shape)))
    half = builder.node("Round", builder.node("Mul", value, builder.constant(0.5)))
    return builder.node("Add", half, added)


def offsets(builder: GraphBuilder, likelier: int, blank: int = 0) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return small differences between the tokens, so that no two are equally likely. The blank is likelier."""
    differences = -builder.random.permutation(len(TOKENS)).astype(np.float32) / 64
    differences[blank] += likelier
    return differences


def _save(
    builder: GraphBuilder,
    path: Path,
    first: tuple[str, str, int],
    states: list[str],
    encoder: ExactEncoder,
    batch: Batch,
) -> None:
    """Write the graph with its first output, and the states after it."""
    name, value, units = first
    builder.output(value, name, (batch, encoder.chunk // 4, units))
    for result, state in zip(states, encoder.states, strict=True):
        builder.output(result, f"new_{state.name}", state.port(batch), state.type)
    frames = {"model_type": encoder.kind, "T": encoder.window, "decode_chunk_len": encoder.chunk}
    builder.save(path, {**frames, **encoder.metadata})


def write_pieces(folder: Path, builder: GraphBuilder) -> None:
    """Write the scores of the tokens, by which sherpa-onnx divides hotwords."""
    lines = (f"{token}\t{builder.random.uniform(-8, -2):.3f}\n" for token in TOKENS[3:])
    (folder / "bpe.vocab").write_text("".join(lines), encoding="utf-8")


# Writes small ONNX graphs. Their numbers are whole, so that every sum is exact.

BATCH = "N"
_OPSET, _IR = 17, 9


class GraphBuilder:
    """Collects the nodes of one graph. The methods add nodes and return the names of their results."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, shape: Sequence[int | str], kind: int = TensorProto.FLOAT) -> str:
        """Add an input."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, value: str, name: str, shape: Sequence[int | str], kind: int = TensorProto.FLOAT) -> None:
        """Add an output with this name."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        """Add a constant."""
        name = f"c{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name

    def signs(self, *shape: int) -> NDArray[np.float32]:
        """Draw random numbers from -1, 0 and 1."""
        return self.random.integers(-1, 2, shape).astype(np.float32)

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add any node with one result."""
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def numbers(self, *numbers: int) -> str:
        """Add a constant that is a list of whole numbers."""
        return self.constant(list(numbers), np.int64)

    def number(self, number: int) -> str:
        """Add a constant that is a single whole number."""
        return self.constant(number, np.int64)

    def count(self, value: str, axis: int) -> str:
        """Add the numbers from 0 to the size of this axis."""
        size = self.node("Gather", self.node("Shape", value), self.number(axis))
        return self.node("Range", self.number(0), size, self.number(1))

    def stacked(self, values: Sequence[str]) -> str:
        """Add a new first axis that counts these values."""
        return self.node("Concat", *(self.node("Unsqueeze", value, self.numbers(0)) for value in values), axis=0)

    def nodes(self, operator: str, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Add any node with several results of these names."""
        self._nodes.append(helper.make_node(operator, list(inputs), list(outputs)))

    def whole(self, value: str, scale: float, most: float) -> str:
        """Add nodes that scale by a power of two, round, and limit. The result is exact in any order of summation."""
        scaled = self.node("Mul", value, self.constant(scale))
        return self.node("Clip", self.node("Round", scaled), self.constant(-most), self.constant(most))

    def save(self, path: Path, metadata: Mapping[str, object]) -> None:
        """Write the graph."""
        graph = helper.make_graph(self._nodes, "exact", self._inputs, self._outputs, self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
        helper.set_model_props(model, {key: str(value) for key, value in metadata.items()})
        onnx.save(model, str(path))


# Makes folders with small transducers of the older families that compute exactly.


def make_zipformer_folder(folder: Path, seed: int = 0, *, batch: Batch = BATCH, exact: bool = True) -> Path:
    """Make a Zipformer of the first version, with two stacks. `exact` is that of `make_transducer`."""
    layers, dims, attention, kernels, left = (1, 2), (8, 12), (6, 4), (5, 3), (16, 8)
    stacks = list(enumerate(zip(layers, dims, attention, kernels, left, strict=True)))
    states = [State(f"cached_len_{stack}", (count, 1), 1, grows=16) for stack, (count, *_) in stacks]
    states += [State(f"cached_avg_{stack}", (count, 1, dim), 1) for stack, (count, dim, *_) in stacks]
    for name, part in (("key", 1), ("val", 2), ("val2", 2)):
        states += [
            State(f"cached_{name}_{stack}", (count, before, 1, width // part), 2)
            for stack, (count, _, width, _, before) in stacks
        ]
    for name in ("conv1", "conv2"):
        states += [
            State(f"cached_{name}_{stack}", (count, 1, dim, kernel - 1), 1)
            for stack, (count, dim, _, kernel, _) in stacks
        ]
    metadata = {
        "num_encoder_layers": listed(layers),
        "encoder_dims": listed(dims),
        "attention_dims": listed(attention),
        "cnn_module_kernels": listed(kernels),
        "left_context_len": listed(left),
    }
    return make_transducer(folder, ExactEncoder("zipformer", 32, 39, tuple(states), metadata), seed, batch, exact=exact)


def make_lstm_folder(folder: Path, seed: int = 0, *, batch: Batch = BATCH, exact: bool = True) -> Path:
    """Make an LSTM transducer, which gives a frame in every step. `exact` is that of `make_transducer`."""
    metadata = {"num_encoder_layers": 3, "d_model": 8, "rnn_hidden_size": 12}
    states = State("state0", (3, 1, 8), 1), State("state1", (3, 1, 12), 1)
    return make_transducer(folder, ExactEncoder("lstm", 4, 9, states, metadata), seed, batch, exact=exact)


def make_conformer_folder(folder: Path, seed: int = 0, *, batch: Batch = BATCH, exact: bool = True) -> Path:
    """Make a Conformer transducer, which has an input for the age of a stream. `exact` is that of `make_transducer`."""
    metadata = {"num_encoder_layers": 2, "left_context": 8, "encoder_dim": 12, "pad_length": 11, "cnn_module_kernel": 5}
    states = State("cached_attn", (2, 8, 1, 12), 2), State("cached_conv", (2, 4, 1, 12), 2)
    encoder = ExactEncoder("conformer", 64, 75, states, metadata, age="processed_lens")
    return make_transducer(folder, encoder, seed, batch, exact=exact)


# Makes folders with a small Zipformer-2 that computes exactly.

_LAYERS, _DIMS, _HEADS, _QUERY, _VALUE, _KERNELS, _LEFT = (1, 2), (8, 12), (2, 2), (3, 3), (2, 2), (5, 3), (16, 8)
_EMBEDDED: Final = (128, 3, 19)


def make_ctc_folder(
    folder: Path, seed: int = 0, *, chunk: int = 32, batch: Batch = BATCH, tokens: Sequence[str] = TOKENS
) -> Path:
    """Make a folder with a CTC model. `tokens`: the same number of other tokens, such as another script."""
    return make_ctc(folder, _zipformer2_encoder(chunk), seed, batch, tokens)


def make_transducer_folder(
    folder: Path, seed: int = 0, *, chunk: int = 32, batch: Batch = BATCH, exact: bool = True
) -> Path:
    """Make a folder with a transducer. `exact` is that of `make_transducer`."""
    return make_transducer(folder, _zipformer2_encoder(chunk), seed, batch, exact=exact)


def _zipformer2_encoder(chunk: int) -> ExactEncoder:
    metadata = {
        "num_encoder_layers": listed(_LAYERS),
        "encoder_dims": listed(_DIMS),
        "query_head_dims": listed(_QUERY),
        "value_head_dims": listed(_VALUE),
        "num_heads": listed(_HEADS),
        "cnn_module_kernels": listed(_KERNELS),
        "left_context_len": listed(_LEFT),
    }
    return ExactEncoder("zipformer2", chunk, chunk + 13, tuple(_states(chunk)), metadata)


def _states(chunk: int) -> list[State]:
    states = []
    layer = 0
    for stack, count in enumerate(_LAYERS):
        for _ in range(count):
            left, dim, values = _LEFT[stack], _DIMS[stack], _VALUE[stack] * _HEADS[stack]
            states += [
                State(f"cached_key_{layer}", (left, 1, _QUERY[stack] * _HEADS[stack]), 1),
                State(f"cached_nonlin_attn_{layer}", (1, 1, left, 3 * dim // 4), 1),
                State(f"cached_val1_{layer}", (left, 1, values), 1),
                State(f"cached_val2_{layer}", (left, 1, values), 1),
                State(f"cached_conv1_{layer}", (1, dim, _KERNELS[stack] // 2), 0),
                State(f"cached_conv2_{layer}", (1, dim, _KERNELS[stack] // 2), 0),
            ]
            layer += 1
    return [*states, State("embed_states", (1, *_EMBEDDED), 0), State("processed_lens", (1,), 0, grows=chunk // 2)]


# Makes folders with small models that hear whole utterances. Each frame depends on the whole window, and on its length.

_AFTER: Final = 5  # feature frames after those of a frame that it reads too


def make_whole_icefall_ctc_folder(folder: Path, seed: int = 0) -> Path:
    """Make a folder with a Zipformer-2 with CTC for whole utterances."""
    builder = GraphBuilder(seed)
    frames, count = _whole_encoder(builder)
    builder.output(add_ctc(builder, frames), "log_probs", (BATCH, "frames", len(TOKENS)))
    builder.output(count, "log_probs_len", (BATCH,), TensorProto.INT64)
    builder.save(folder / "model.onnx", {"model_type": "zipformer2_ctc", "version": "1", "model_author": "k2-fsa"})
    write_tokens(folder)
    return folder


def make_whole_icefall_folder(folder: Path, seed: int = 0, *, kind: str = "zipformer2", exact: bool = True) -> Path:
    """Make a folder with a transducer of this type for whole utterances. `exact` is that of `make_transducer`."""
    builder = GraphBuilder(seed)
    frames, count = _whole_encoder(builder)
    builder.output(frames, "encoder_out", (BATCH, "frames", JOINED))
    builder.output(count, "encoder_out_lens", (BATCH,), TensorProto.INT64)
    metadata = {"model_type": kind, "version": "1", "model_author": "k2-fsa"}
    builder.save(folder / "encoder-epoch-1-avg-1.onnx", metadata)
    return _make_predictor_and_joiner(folder, seed, BATCH, exact=exact)


def _whole_encoder(builder: GraphBuilder) -> tuple[str, str]:
    """Add an encoder. Returns its frames, as many as a Zipformer has, and their number.

    It sums the whole window without regard to the length that it is given, as the first layers of a Zipformer do.
    """
    features = builder.input("x", (BATCH, "time", MELS))
    length = builder.input("x_lens", (BATCH,), TensorProto.INT64)
    seven, two, one = (builder.number(number) for number in (7, 2, 1))

    def frames_of(size: str) -> str:
        halves = builder.node("Div", builder.node("Sub", size, seven), two)
        return builder.node("Div", builder.node("Add", halves, one), two)

    centred = add_centred(builder, features, _QUIET)
    size = builder.node("Gather", builder.node("Shape", features), one)
    used = builder.node("Mul", frames_of(size), builder.number(4))
    parts = []
    for begin in (0, _AFTER):
        end = builder.node("Unsqueeze", builder.node("Add", used, builder.number(begin)), builder.numbers(0))
        parts.append(builder.node("Slice", centred, builder.numbers(begin), end, builder.numbers(1)))
    hidden = add_rows(builder, builder.node("Add", *parts), 4, MELS)
    weighed = builder.node("Mul", hidden, builder.constant(builder.signs(HIDDEN)))
    total = builder.node("ReduceSum", weighed, builder.numbers(1, 2), keepdims=0)
    wrong = builder.node("Cast", builder.node("Sub", length, size), to=TensorProto.FLOAT)  # 0 if the length is right
    total = builder.node("Add", total, wrong)
    return add_frames(builder, hidden, add_rest(builder, total)), frames_of(length)
