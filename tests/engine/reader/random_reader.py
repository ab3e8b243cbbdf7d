"""Readers with random weights: their weights, the files in which such weights are published, and what they compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from streamer.engine.reader.pieces import PIECES_FILE
from streamer.engine.reader.weights import DECODER_FILE, ENCODER_FILE, Floats, ReaderWeights, RoundedWeight

WIDTH: Final = 256
HEADS: Final = 8
LAYERS: Final = 2
PIECES: Final = 300
_HIDDEN: Final = 384
_TIED: Final = "decoder.proj_out"


def random_weights(seed: int = 5) -> ReaderWeights:
    """Return weights with which frames and tokens keep about their size from layer to layer."""
    random = np.random.default_rng(seed)

    def rounded(inputs: int, outputs: int) -> RoundedWeight:
        numbers = random.integers(0, 256, (inputs, outputs), np.uint8)
        scale, zero = np.float32(0.02 / inputs**0.5), np.uint8(random.integers(118, 138))
        return RoundedWeight(numbers, np.full(outputs, scale), np.full(outputs, zero))

    def floats(*shape: int) -> Floats:
        return random.normal(size=shape).astype(np.float32)

    linear: dict[str, RoundedWeight] = {}
    other: dict[str, Floats] = {
        "encoder.conv1.weight": floats(WIDTH, 1, 127) / 11,
        "encoder.conv2.weight": floats(2 * WIDTH, WIDTH, 7) / 42,
        "encoder.conv2.bias": floats(2 * WIDTH) / 10,
        "encoder.conv3.weight": floats(WIDTH, 2 * WIDTH, 3) / 39,
        "encoder.conv3.bias": floats(WIDTH) / 10,
        "encoder.groupnorm.weight": 1 + floats(WIDTH) / 10,
        "encoder.groupnorm.bias": floats(WIDTH) / 10,
        "encoder.layer_norm.weight": 1 + floats(WIDTH) / 10,
        "decoder.norm.weight": 1 + floats(WIDTH) / 10,
    }
    norms = {"encoder": ("input", "post_attention"), "decoder": ("input", "post_attention", "final")}
    for part, layer in ((part, layer) for part in norms for layer in range(LAYERS)):
        stem, wide = f"{part}.layers.{layer}", _HIDDEN * (1 if part == "encoder" else 2)
        for attention in ("self_attn",) if part == "encoder" else ("self_attn", "encoder_attn"):
            linear |= {f"{stem}.{attention}.{kind}_proj": rounded(WIDTH, WIDTH) for kind in "qkvo"}
        linear |= {f"{stem}.mlp.fc1": rounded(WIDTH, wide), f"{stem}.mlp.fc2": rounded(_HIDDEN, WIDTH)}
        other |= {f"{stem}.mlp.fc1.bias": floats(wide) / 10, f"{stem}.mlp.fc2.bias": floats(WIDTH) / 10}
        other |= {f"{stem}.{norm}_layernorm.weight": 1 + floats(WIDTH) / 10 for norm in norms[part]}
    table = rounded(PIECES, WIDTH)
    linear["decoder.embed_tokens"] = RoundedWeight(table.numbers, table.scales * 8, table.zeros)
    return ReaderWeights(linear, other)


# Computes the same with numpy in full numbers.


def first_frames(weights: ReaderWeights, samples: Floats) -> Floats:
    """Return what the first convolution gives, [width, frames]."""
    first: Floats = np.tanh(_convolved(samples[None], weights.other["encoder.conv1.weight"], 64))
    return first


def sound_of(weights: ReaderWeights, samples: Floats) -> list[Floats]:
    """Return the keys and values [heads, frames, size] of each layer of the decoder."""
    frames = frames_of(weights, samples)
    names = [f"decoder.layers.{layer}.encoder_attn.{kind}_proj" for layer in range(LAYERS) for kind in "kv"]
    return [_split(_product(weights, frames, name)) for name in names]


def frames_of(weights: ReaderWeights, samples: Floats) -> Floats:
    """Return the frames of the encoder, [frames, width]."""
    other = weights.other
    first = first_frames(weights, samples)
    even = (first - first.mean()) / np.sqrt(first.var() + 1e-5)
    even = even * other["encoder.groupnorm.weight"][:, None] + other["encoder.groupnorm.bias"][:, None]
    second = _gelu(_convolved(even, other["encoder.conv2.weight"], 3) + other["encoder.conv2.bias"][:, None])
    third = _gelu(_convolved(second, other["encoder.conv3.weight"], 2) + other["encoder.conv3.bias"][:, None])
    frames = third.T
    for layer in range(LAYERS):
        stem = f"encoder.layers.{layer}"
        rows = _norm(frames, other[f"{stem}.input_layernorm.weight"])
        query, key, value = (_product(weights, rows, f"{stem}.self_attn.{kind}_proj") for kind in "qkv")
        mixed = _attention(_turned(query, 0), _split(_turned(key, 0)), _split(value))
        frames = frames + _product(weights, mixed, f"{stem}.self_attn.o_proj")
        rows = _norm(frames, other[f"{stem}.post_attention_layernorm.weight"])
        hidden = _gelu(_product(weights, rows, f"{stem}.mlp.fc1") + other[f"{stem}.mlp.fc1.bias"])
        frames = frames + _product(weights, hidden, f"{stem}.mlp.fc2") + other[f"{stem}.mlp.fc2.bias"]
    return _norm(frames, other["encoder.layer_norm.weight"])


def log_probabilities_of(weights: ReaderWeights, sound: Sequence[Floats], tokens: Sequence[int]) -> Floats:
    """Return the log-probabilities [tokens, pieces] after each of these tokens."""
    other, table = weights.other, weights.linear["decoder.embed_tokens"].full()
    rows = table[list(tokens)]
    hidden_later = np.triu(np.full((len(tokens), len(tokens)), -1e9, np.float32), 1)
    for layer in range(LAYERS):
        stem = f"decoder.layers.{layer}"
        inner = _norm(rows, other[f"{stem}.input_layernorm.weight"])
        query, key, value = (_product(weights, inner, f"{stem}.self_attn.{kind}_proj") for kind in "qkv")
        mixed = _attention(_turned(query, 0), _split(_turned(key, 0)), _split(value), hidden_later)
        rows = rows + _product(weights, mixed, f"{stem}.self_attn.o_proj")
        inner = _norm(rows, other[f"{stem}.post_attention_layernorm.weight"])
        query = _product(weights, inner, f"{stem}.encoder_attn.q_proj")
        mixed = _attention(query, *sound[2 * layer : 2 * layer + 2])
        rows = rows + _product(weights, mixed, f"{stem}.encoder_attn.o_proj")
        inner = _norm(rows, other[f"{stem}.final_layernorm.weight"])
        both = _product(weights, inner, f"{stem}.mlp.fc1") + other[f"{stem}.mlp.fc1.bias"]
        hidden, gate = np.split(both, 2, axis=1)
        gated = hidden * gate / (1 + np.exp(-gate))
        rows = rows + _product(weights, gated, f"{stem}.mlp.fc2") + other[f"{stem}.mlp.fc2.bias"]
    logits = _norm(rows, other["decoder.norm.weight"]) @ table.T
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def _product(weights: ReaderWeights, rows: Floats, name: str) -> Floats:
    return rows @ weights.linear[name].full()


def _convolved(sound: Floats, weight: Floats, stride: int) -> Floats:
    windows = np.lib.stride_tricks.sliding_window_view(sound, weight.shape[2], axis=1)[:, ::stride]
    return np.einsum("itk,oik->ot", windows, weight)


def _gelu(values: Floats) -> Floats:
    from math import erf

    return values * (1 + np.vectorize(erf)(values / 2**0.5)).astype(np.float32) / 2


def _norm(rows: Floats, weight: Floats) -> Floats:
    spread = np.sqrt(rows.var(axis=1, keepdims=True) + 1e-5)
    return (rows - rows.mean(axis=1, keepdims=True)) / spread * weight


def _turned(rows: Floats, first: int) -> Floats:
    """Turn pairs of the first 32 numbers of each head by the position."""
    places = np.arange(first, first + len(rows))[:, None, None]
    angles = places * 10_000.0 ** (-np.arange(16) / 16)
    turned = rows.reshape(len(rows), HEADS, -1).copy()
    even, odd = turned[..., 0:32:2].copy(), turned[..., 1:32:2].copy()
    turned[..., 0:32:2] = even * np.cos(angles) - odd * np.sin(angles)
    turned[..., 1:32:2] = odd * np.cos(angles) + even * np.sin(angles)
    return turned.reshape(rows.shape)


def _split(rows: Floats) -> Floats:
    return rows.reshape(len(rows), HEADS, -1).swapaxes(0, 1)


def _attention(query: Floats, keys: Floats, values: Floats, mask: Floats | float = 0.0) -> Floats:
    scores = np.einsum("hqs,hks->hqk", _split(query), keys) / (WIDTH // HEADS) ** 0.5 + mask
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    shares /= shares.sum(axis=2, keepdims=True)
    return np.einsum("hqk,hks->qhs", shares, values).reshape(len(query), WIDTH)


# Writes the files of a reader as they are published. Their graphs have the right names, and compute nothing useful.


def write_reader(folder: Path, weights: ReaderWeights, *, signed: bool) -> None:
    """Write the files of a reader. `signed`: with weights in int8, like base; otherwise in uint8, like tiny."""
    folder.mkdir(exist_ok=True)
    for part, name in (("encoder", ENCODER_FILE), ("decoder", DECODER_FILE)):
        _write_ort(_Published(weights, part, signed=signed).model(), folder / name)
    pieces = [b"<unk>", b"<s>", b"</s>", *(b"\xe2\x96\x81w%d" % number for number in range(3, PIECES))]
    (folder / PIECES_FILE).write_bytes(b"".join(bytes([len(piece)]) + piece for piece in pieces))


def _write_ort(model: onnx.ModelProto, path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class _Published:
    """A graph with the nodes and weights of one part, by their published names."""

    def __init__(self, weights: ReaderWeights, part: str, *, signed: bool) -> None:
        self._weights, self._part, self._signed = weights, part, signed
        self._constants: list[onnx.TensorProto] = []
        self._unpacking: list[onnx.NodeProto] = []
        self._outputs: list[str] = []
        self._numbers = count(100)

    def model(self) -> onnx.ModelProto:
        """Return the model."""
        inner = [node for name in self._of(self._weights.linear) for node in self._linear(name)]
        inner += self._other()
        inputs = [helper.make_tensor_value_info(f"rows_{size}", TensorProto.FLOAT, [1, size]) for size in _SIZES]
        inputs.append(helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, 1]))
        nodes = [*self._unpacking, *inner]
        outputs = [helper.make_empty_tensor_value_info(name) for name in self._outputs]
        if self._part == "decoder":  # its nodes are in the branches of a choice
            inputs.append(helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1]))
            branches = {name: helper.make_graph(inner, name, [], [*outputs]) for name in ("then_branch", "else_branch")}
            nodes = [*self._unpacking, helper.make_node("If", ["use_cache_branch"], self._outputs, **branches)]
        graph = helper.make_graph(nodes, "published", inputs, outputs, self._constants)
        versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=8)

    def _of(self, weights: Iterable[str]) -> list[str]:
        return [name for name in weights if name.startswith(f"{self._part}.")]

    def _linear(self, name: str) -> list[onnx.NodeProto]:
        weight, table = self._weights.linear[name], name.endswith("embed_tokens")
        path = name.removeprefix("encoder.") if self._part == "encoder" else f"model.{name}"
        stem = f"{path}.weight_merged_0" if table else f"onnx::MatMul_{next(self._numbers)}"
        constants = self._rounded(stem, weight)
        place = "/" + "/".join(path.replace("layers.", "layers_").split(".")).replace("layers_", "layers.")
        if self._signed:  # base has other names for some of them
            for here, there in (("o_proj", "dense"), ("decoder.fc1", ""), ("fc2", "fc2")):
                place = place.replace(here, there) if there else place
            self._unpacking += [
                helper.make_node("Cast", [constants[0]], [f"{stem}_cast_tensor"], to=TensorProto.FLOAT),
                helper.make_node("Mul", [f"{stem}_cast_tensor", constants[1]], [f"{stem}_mul_tensor"]),
                helper.make_node("Add", [f"{stem}_mul_tensor", constants[2]], [f"{stem}_add_tensor"]),
            ]
        out = f"{place}/output"
        self._outputs.append(out)
        if table:
            if self._signed:
                return [helper.make_node("Gather", [f"{stem}_add_tensor", "input_ids"], [out], name=f"{place}/Gather")]
            found = helper.make_node("Gather", [constants[0], "input_ids"], [f"{place}/found"], name=f"{place}/Gather")
            return [found, helper.make_node("DequantizeLinear", [f"{place}/found", *constants[1:]], [out])]
        rows = f"rows_{len(weight.numbers)}"
        if self._signed:
            return [helper.make_node("MatMul", [rows, f"{stem}_add_tensor"], [out], name=f"{place}/MatMul")]
        return [
            helper.make_node(
                "DynamicQuantizeMatMul", [rows, *constants], [out], name=f"{place}/MatMul_quant", domain="com.microsoft"
            )
        ]

    def _rounded(self, stem: str, weight: RoundedWeight) -> list[str]:
        scale, zero = weight.scales[:1], weight.zeros[:1]
        parts: tuple[NDArray[Any], ...] = (weight.numbers, scale.reshape(()), zero.reshape(()))
        if self._signed:
            parts = (weight.numbers ^ np.uint8(128)).view(np.int8), scale, (128 - zero.astype(np.float32)) * scale
        names = [f"{stem}_quantized", f"{stem}_scale", f"{stem}_zero_point"]
        for name, values in zip(names, parts, strict=True):
            self._constant(name, values)
        return names

    def _constant(self, name: str, values: NDArray[Any]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _other(self) -> list[onnx.NodeProto]:
        nodes = []
        for name in self._of(self._weights.other):
            values = self._weights.other[name]
            plain = name.removeprefix("encoder.") if self._part == "encoder" else f"model.{name}_merged_0"
            if "groupnorm" in plain:
                operator = "Mul" if plain.endswith("weight") else "Add"
                stored = self._constant(f"onnx::{operator}_{next(self._numbers)}", values[:, None])
                nodes.append(
                    helper.make_node(
                        operator, [f"rows_{WIDTH}", stored], [f"even_{operator}"], name=f"/groupnorm/{operator}"
                    )
                )
                self._outputs.append(f"even_{operator}")
                continue
            stored = self._constant(plain, values)
            if plain.startswith("conv") and plain.endswith("weight"):
                sound = f"/sound/{plain}"
                self._constant(sound, np.zeros((1, values.shape[1], 200), np.float32))
                place = f"/{plain.removesuffix('.weight')}/Conv"
                nodes.append(helper.make_node("Conv", [sound, stored], [f"{place}_output"], name=place))
            else:
                nodes.append(helper.make_node("Identity", [stored], [f"{plain}_same"], name=f"{plain}_same"))
            self._outputs.append(nodes[-1].output[0])
        return nodes


_SIZES: Final = (WIDTH, _HIDDEN)
