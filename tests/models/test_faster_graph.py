"""Logarithms of 1 + exp(y) without a search for infinity, and convolutions along time as those of pictures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from streamer.models.faster_graph import faster_graph

Node = onnx.NodeProto


def constant(name: str, value: float) -> Node:
    """A single number."""
    tensor = helper.make_tensor(name, TensorProto.FLOAT, [], np.float32(value).tobytes(), raw=True)
    return helper.make_node("Constant", [], [name], value=tensor)


def graph(version: int = 13, one: float = 1.0, infinity: float = math.inf, otherwise: str = "y") -> bytes:
    """A graph as PyTorch exports it."""
    nodes = [
        constant("one", one),
        constant("infinity", infinity),
        helper.make_node("Exp", ["y"], ["power"]),
        helper.make_node("Add", ["power", "one"], ["total"]),
        helper.make_node("Log", ["total"], ["log"]),
        helper.make_node("Cast", ["log"], ["same"], to=TensorProto.FLOAT),
        helper.make_node("Equal", ["same", "infinity"], ["large"]),
        helper.make_node("Where", ["large", otherwise, "same"], ["found"]),
    ]
    inputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])]
    outputs = [helper.make_tensor_value_info("found", TensorProto.FLOAT, ["N"])]
    made = helper.make_graph(nodes, "graph", inputs, outputs)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    return bytes(model.SerializeToString())


def computed(content: bytes, y: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a graph gives."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"y": y})[0])


def test_the_numbers_are_the_same() -> None:
    """The rewritten graph gives the same bits, also where the sum becomes too large."""
    before = graph()
    after = faster_graph(before)
    model = onnx.load_from_string(after)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node][-2:] == ["Max", "Min"]
    limits = np.array([88.7, 88.75], np.float32).view(np.int32)
    every = np.arange(*limits, dtype=np.int32).view(np.float32)  # all numbers around the largest logarithm
    random = np.random.default_rng(0).normal(scale=60, size=10_000).astype(np.float32)
    y = np.concatenate((every, random, np.array([0, -0.0, math.inf, -math.inf, math.nan, 3e38], np.float32)))
    assert np.array_equal(computed(before, y), computed(after, y), equal_nan=True)


@pytest.mark.parametrize("content", [graph(version=12), graph(one=2.0), graph(infinity=80.0), graph(otherwise="power")])
def test_other_choices_stay(content: bytes) -> None:
    """Old operators, other sums, other bounds, and other numbers instead are left as they are."""
    assert faster_graph(content) is content


CHANNELS, TIME = 6, 20


def convolution_graph(version: int = 13, groups: int = CHANNELS, **attributes: Any) -> bytes:
    """A graph with one convolution along time."""
    random = np.random.default_rng(0)
    constants = {
        "weights": random.integers(-3, 4, (CHANNELS, CHANNELS // groups, 5)).astype(np.float32),
        "bias": random.integers(-3, 4, CHANNELS).astype(np.float32),
    }
    node = helper.make_node("Conv", ["sound", *constants], ["found"], group=groups, kernel_shape=[5], **attributes)
    inputs = [helper.make_tensor_value_info("sound", TensorProto.FLOAT, ["N", CHANNELS, TIME])]
    outputs = [helper.make_tensor_value_info("found", TensorProto.FLOAT, ["N", CHANNELS, None])]
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    made = helper.make_graph([node], "graph", inputs, outputs, weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    helper.set_model_props(model, {"what": "a test"})
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("attributes", [{}, {"pads": [4, 0]}, {"strides": [2], "dilations": [3], "pads": [1, 2]}])
def test_the_sums_are_the_same(attributes: dict[str, Any]) -> None:
    """The rewritten graph gives the same numbers, and says the same about itself."""
    before = convolution_graph(**attributes)
    after = faster_graph(before)
    model = onnx.load_from_string(after)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Unsqueeze", "Unsqueeze", "Conv", "Squeeze"]
    assert model.metadata_props == onnx.load_from_string(before).metadata_props
    sound = np.random.default_rng(1).integers(-99, 100, (3, CHANNELS, TIME)).astype(np.float32)
    found = [
        onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"sound": sound})[0]
        for content in (before, after)
    ]
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize("content", [convolution_graph(version=12), convolution_graph(groups=1)])
def test_other_convolutions_stay(content: bytes) -> None:
    """Old operators, and convolutions over all channels, are left as they are."""
    assert faster_graph(content) is content
