"""Convolutions along time become convolutions of pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from streamer.graphs.rewriting.faster_graph import faster_graph

CHANNELS, TIME = 6, 20


def graph(version: int = 13, groups: int = CHANNELS, **attributes: Any) -> bytes:
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
    before = graph(**attributes)
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


@pytest.mark.parametrize("content", [graph(version=12), graph(groups=1)])
def test_other_convolutions_stay(content: bytes) -> None:
    """Old operators, and convolutions over all channels, are left as they are."""
    assert faster_graph(content) is content
