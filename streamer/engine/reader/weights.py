"""The weights of Moonshine by the names of its layers, out of the graphs in which they are published.

Two kinds of graphs are known. Those of `base` have weights in int8, which they unpack in every run. Those of `tiny`
have weights in uint8 and round their inputs too. Both name their nodes after the layers, which this module goes by.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from streamer.models.protobuf import Damaged, fields, number_of, numbers_of, part_of, text_of

ENCODER_FILE: Final = "encoder_model.ort"
DECODER_FILE: Final = "decoder_model_merged.ort"

Floats = NDArray[np.float32]


class UnknownReader(ValueError):
    """These are no graphs of Moonshine that this module knows. The message says what is missing."""


@dataclass(frozen=True)
class RoundedWeight:
    """A weight of a linear layer in one byte for each number, (numbers - zeros) * scales.

    `numbers`: [inputs, outputs]. `scales` and `zeros`: one for each output.
    """

    numbers: NDArray[np.uint8]
    scales: Floats
    zeros: NDArray[np.uint8]

    def full(self) -> Floats:
        """Return the weight in full numbers."""
        full: Floats = (self.numbers.astype(np.float32) - self.zeros) * self.scales
        return full


@dataclass(frozen=True)
class ReaderWeights:
    """The weights of a reader: `linear` those of linear layers and of tables, `other` all others, in full numbers.

    The names are `encoder.` or `decoder.`, the path of the layer, and for others what it is. Layers are `q_proj`,
    `k_proj`, `v_proj`, `o_proj`, `fc1` and `fc2` in both parts.
    """

    linear: Mapping[str, RoundedWeight]
    other: Mapping[str, Floats]

    @property
    def width(self) -> int:
        """The numbers of a frame."""
        return len(self.other["encoder.layer_norm.weight"])

    def layers(self, part: str) -> int:
        """Return the number of layers of a part."""
        return len({name.split(".")[2] for name in self.linear if name.startswith(f"{part}.layers.")})


def read_weights(folder: Path) -> ReaderWeights:
    """Return the weights of the graphs in this folder. Raise UnknownReader if they are of another kind."""
    linear: dict[str, RoundedWeight] = {}
    other: dict[str, Floats] = {}
    for part, name in (("encoder", ENCODER_FILE), ("decoder", DECODER_FILE)):
        try:
            source = _Source(_as_onnx(folder / name), part)
            linear |= source.linear()
            other |= source.other()
        except (Damaged, KeyError, IndexError, UnicodeDecodeError) as error:
            raise UnknownReader(f"{folder / name} is no graph of Moonshine that is known ({error!r})") from error
    linear.pop("decoder.proj_out", None)  # the table of the pieces again
    return ReaderWeights(linear, other)


def _as_onnx(path: Path) -> bytes:
    """Return the content of an ONNX file with this graph, as it is."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.save_model_format", "ONNX")
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.enable_cpu_mem_arena = False
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "graph.onnx")
        try:
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no common class
            raise UnknownReader(f"{path} is not accepted by onnxruntime: {str(error)[:300]}") from error
        return Path(options.optimized_model_filepath).read_bytes()


@dataclass(frozen=True)
class _Node:
    name: str
    operator: str
    inputs: tuple[str, ...]


# Names that one of the two kinds uses, and what they are called here.
_SAME: Final = {"dense": "o_proj", "up_proj": "fc1", "down_proj": "fc2"}
_PATH: Final = re.compile(r"/(?:model/decoder/)?(.+)/MatMul(?:_quant)?")
_MERGED: Final = re.compile(r"_merged_\d+$")
_TYPES: Final = {1: np.float32, 2: np.uint8, 3: np.int8}
# How the inputs of a product name its weight, the scale and the zero of the weight.
_ROUNDED: Final = {"MatMulIntegerToFloat": (1, 3, 5), "DynamicQuantizeMatMul": (1, 2, 3)}
_UNPACKED: Final = "_add_tensor"  # how graphs with weights in int8 name an unpacked weight
_SIGNED: Final = 128  # what turns int8 into uint8


class _Source:
    """A published graph: its nodes, those in branches too, and its constants."""

    def __init__(self, content: bytes, part: str) -> None:
        self._content, self._part = content, part
        self._nodes: list[_Node] = []
        self._constants: dict[str, NDArray[Any]] = {}
        graph = next(value for number, value in fields(content, 0, len(content)) if number == 7)
        self._read(part_of(graph))

    def linear(self) -> dict[str, RoundedWeight]:
        """Return the weights of the linear layers and of the table of pieces."""
        weights: dict[str, RoundedWeight] = {}
        for node in self._nodes:
            path = _PATH.fullmatch(node.name)
            if node.operator == "Gather" and node.name.endswith("/embed_tokens/Gather"):
                stem = node.inputs[0].removesuffix(_UNPACKED).removesuffix("_quantized")
                names = (f"{stem}_quantized", f"{stem}_scale", f"{stem}_zero_point")
                weights[f"{self._part}.embed_tokens"] = self._rounded(*names)
            elif path and node.operator in _ROUNDED:
                weights[self._name(path[1])] = self._rounded(*(node.inputs[at] for at in _ROUNDED[node.operator]))
            elif path and node.operator == "MatMul" and node.inputs[1].endswith(_UNPACKED):
                stem = node.inputs[1].removesuffix(_UNPACKED)
                names = (f"{stem}_quantized", f"{stem}_scale", f"{stem}_zero_point")
                weights[self._name(path[1])] = self._rounded(*names)
        return weights

    def other(self) -> dict[str, Floats]:
        """Return the weights of convolutions and norms, and the biases."""
        weights: dict[str, Floats] = {}
        for name, value in self._constants.items():
            plain = _MERGED.sub("", name).removeprefix("model.decoder.")
            if re.fullmatch(r"[a-z][\w.]*\.(weight|bias)", plain) and value.dtype == np.float32:
                weights[self._name(plain)] = value
        for node in self._nodes:
            if re.fullmatch(r"/conv\d/Conv", node.name):
                name = node.inputs[1].removesuffix(_UNPACKED)
                if (whole := self._constants.get(node.inputs[1])) is None:
                    numbers, scale, zero = (self._constants[f"{name}_{end}"] for end in _ENDS)
                    whole = (numbers.astype(np.float32) * scale + zero).astype(np.float32)
                weights[self._name(name)] = whole
            elif node.name in ("/groupnorm/Mul", "/groupnorm/Add"):
                kind = "weight" if node.name.endswith("Mul") else "bias"
                weights[self._name(f"groupnorm.{kind}")] = self._constants[node.inputs[1]].ravel()
        return weights

    def _name(self, path: str) -> str:
        names = path.replace("/", ".").split(".")
        return ".".join([self._part, *(_SAME.get(name, name) for name in names)])

    def _rounded(self, numbers: str, scale: str, zero: str) -> RoundedWeight:
        values, [scale_value], [zero_value] = (self._constants[name] for name in (numbers, scale, zero))
        outputs = values.shape[1]
        if (
            values.dtype == np.int8
        ):  # these are scaled first, and then moved by a number that is a multiple of the scale
            zero_value = round(_SIGNED - float(zero_value) / float(scale_value))
            values = (values.view(np.uint8) ^ _SIGNED).astype(np.uint8)
        return RoundedWeight(values, np.full(outputs, scale_value, np.float32), np.full(outputs, zero_value, np.uint8))

    def _read(self, graph: tuple[int, int]) -> None:
        for number, value in fields(self._content, *graph):
            if number == 1:
                for branch in self._read_node(part_of(value)):
                    self._read(branch)
            elif number == 5:
                name, array = self._array(part_of(value))
                if array is not None:
                    self._constants.setdefault(name, array)

    def _read_node(self, part: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Note a node, and yield the graphs in it."""
        inputs: list[str] = []
        name = operator = ""
        for number, value in fields(self._content, *part):
            if number == 1:
                inputs.append(text_of(self._content, value))
            elif number == 3:
                name = text_of(self._content, value)
            elif number == 4:
                operator = text_of(self._content, value)
            elif number == 5:
                yield from (
                    part_of(inner) for field, inner in fields(self._content, *part_of(value)) if field == _BRANCH
                )
        self._nodes.append(_Node(name, operator, tuple(inputs)))

    def _array(self, part: tuple[int, int]) -> tuple[str, NDArray[Any] | None]:
        name, kind, shape, raw = "", 0, list[int](), None
        for number, value in fields(self._content, *part):
            if number == 1:
                shape += numbers_of(self._content, value)
            elif number == 2:
                kind = number_of(value)
            elif number == 8:
                name = text_of(self._content, value)
            elif number == 9:
                raw = part_of(value)
        if raw is None or kind not in _TYPES:
            return name, None
        values = np.frombuffer(
            self._content, _TYPES[kind], (raw[1] - raw[0]) // np.dtype(_TYPES[kind]).itemsize, raw[0]
        )
        return name, values.reshape(shape or [1])


_BRANCH: Final = 6  # the number of a field of an attribute: a graph
_ENDS: Final = ("quantized", "scale", "zero_point")
