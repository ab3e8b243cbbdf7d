"""Written graphs are read by the library that everybody uses, and computed by onnxruntime."""

from __future__ import annotations

import struct

import numpy as np
import onnx

from streamer.engine.public.sessions import new_session
from streamer.models.graph_writer import CONTRIBUTED, GraphWriter
from streamer.models.onnx_file import ElementType


def test_a_written_graph_is_complete_and_computes() -> None:
    """Constants, attributes of all kinds, negative numbers and several results are as they were given."""
    graph = GraphWriter()
    given = graph.input("given", ["batch", 4])
    scale = graph.constant(struct.pack("<2f", 0.5, -2), [2], ElementType.FLOAT)
    ordered = graph.node("Transpose", given, perm=[1, 0])
    halves = graph.nodes("Split", ordered, results=2, axis=-2)
    joined = graph.node("Concat", *(graph.node("Transpose", half, perm=[1, 0]) for half in halves), axis=0)
    scaled = graph.node("Mul", joined, scale)
    gelu = graph.node("QuickGelu", scaled, domain=CONTRIBUTED, alpha=1.5)
    last = graph.node("Slice", gelu, graph.numbers(-1), graph.numbers(2**62), graph.numbers(1))
    graph.output(last, ["rows", 1])
    graph.output(graph.node("Gather", given, graph.number(-1), axis=1), ["batch"])
    model = onnx.load_from_string(graph.content())
    assert [port.name for port in model.graph.input] == ["given"]
    assert [dim.dim_param or dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == ["batch", 4]
    onnx.checker.check_model(model)
    rows = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)
    found, column = new_session(graph.content()).run(None, {"given": rows})
    scaled_rows = np.array([2, 6, 4, 8], np.float32) * -2
    np.testing.assert_allclose(found[:, 0], scaled_rows / (1 + np.exp(-1.5 * scaled_rows)), atol=1e-5)
    assert column.tolist() == [4, 8]
