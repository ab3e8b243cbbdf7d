"""Products with weights in bytes multiply bytes, and a row of them depends on no other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from streamer.engine.public.sessions import DeviceKind, Placement, graph_content, new_session, open_graph
from streamer.models.byte_products import multiply_bytes
from streamer.models.onnx_file import read_graph_file
from workshop.graphs.exact_icefall import make_transducer_folder

INPUTS, OUTPUTS = 48, 20
ROWS: NDArray[np.float32] = np.random.default_rng(0).normal(0, 1, (9, 3, INPUTS)).astype(np.float32)
WEIGHTS: NDArray[np.float32] = np.random.default_rng(1).normal(0, 1, (2, INPUTS, OUTPUTS)).astype(np.float32)


def file_in_int8(folder: Path, version: int, **how: object) -> Path:
    """Return the file of a graph with two products of the same rows, in int8."""
    tables = [numpy_helper.from_array(each, f"table_{number}") for number, each in enumerate(WEIGHTS)]
    nodes = [helper.make_node("MatMul", ["rows", f"table_{number}"], [f"product_{number}"]) for number in range(2)]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, size])
        for name, size in (("rows", INPUTS), ("product_0", OUTPUTS), ("product_1", OUTPUTS))
    ]
    graph = helper.make_graph(nodes, "products", ports[:1], ports[1:], tables)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    onnx.save(model, str(folder / "graph.onnx"))
    quantize_dynamic(folder / "graph.onnx", folder / "graph.int8.onnx", **how)
    return folder / "graph.int8.onnx"


def operators(content: bytes) -> Counter[str]:
    """Return how often a graph has each operator."""
    return Counter(node.op_type for node in onnx.load_from_string(content).graph.node)


@pytest.mark.parametrize("version", [13, 17, 18])
@pytest.mark.parametrize(
    "how",
    [{"weight_type": QuantType.QInt8}, {"weight_type": QuantType.QUInt8}, {"per_channel": True}],
    ids=["signed", "unsigned", "by column"],
)
def test_products_of_bytes(version: int, how: dict[str, object], tmp_path: Path) -> None:
    """They are near those of full numbers, also of quiet rows beside loud ones, and the same bits without these."""
    content = graph_content(read_graph_file(file_in_int8(tmp_path, version, **how)))
    onnx.checker.check_model(onnx.load_from_string(content), full_check=False)
    count = operators(content)
    assert (count["MatMulIntegerToFloat"], count["QuantizeLinear"], count["DequantizeLinear"]) == (2, 1, 0)
    rows = ROWS * np.float32(10) ** np.arange(-4, 5, dtype=np.float32)[:, None, None]
    session = new_session(content)
    found = session.run(None, {"rows": rows})
    for product, table in zip(found, WEIGHTS, strict=True):
        expected = rows @ table
        assert (abs(product - expected).max(2) < 0.1 * abs(expected).max(2)).all()
    for first in (0, 4, 8):
        alone = session.run(None, {"rows": rows[first : first + 1]})
        assert all(np.array_equal(one[0], all_of_it[first]) for one, all_of_it in zip(alone, found, strict=True))
    zeros, _ = session.run(None, {"rows": 0 * ROWS})
    assert not zeros.any()


def test_a_gpu_computes_full_numbers(tmp_path: Path) -> None:
    """Its library has no products of bytes."""
    graph = read_graph_file(file_in_int8(tmp_path, 17))
    count = operators(graph_content(graph, Placement(DeviceKind.CUDA)))
    assert (count["MatMul"], count["DequantizeLinear"], count["MatMulIntegerToFloat"]) == (2, 2, 0)


def test_other_graphs_stay_as_they_are(tmp_path: Path) -> None:
    """Without weights in bytes, or with operators from before version 13, nothing is rewritten."""
    file_in_int8(tmp_path, 17)
    content = (tmp_path / "graph.onnx").read_bytes()
    assert multiply_bytes(content) is content
    old = helper.make_model(onnx.load_from_string(content).graph, opset_imports=[helper.make_opsetid("", 12)])
    assert multiply_bytes(old.SerializeToString()) == old.SerializeToString()


TABLE = np.arange(-32, 32, dtype=np.int8).reshape(8, 8)


def used_twice(scale: NDArray[np.float32], axis: int = 1) -> bytes:
    """Return a graph whose table is multiplied from both sides."""
    constants = [numpy_helper.from_array(TABLE, "table"), numpy_helper.from_array(scale, "scale")]
    nodes = [
        helper.make_node("DequantizeLinear", ["table", "scale"], ["full"], axis=axis),
        helper.make_node("MatMul", ["rows", "full"], ["product"]),
        helper.make_node("MatMul", ["full", "product"], ["left"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 8]) for name in ("rows", "left")]
    graph = helper.make_graph(nodes, "products", ports[:1], ports[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


def test_a_table_that_others_read_stays() -> None:
    """The full numbers of a table are still made for a node that is no product, or that has it on the left."""
    content = multiply_bytes(used_twice(np.array(0.5, np.float32)))
    count = operators(content)
    assert (count["MatMulIntegerToFloat"], count["MatMul"], count["DequantizeLinear"]) == (1, 1, 1)
    rows = ROWS[:8, 0, :8]
    [left] = new_session(content).run(None, {"rows": rows})
    expected = 0.5 * TABLE @ (rows @ (0.5 * TABLE))
    assert abs(left - expected).max() < 0.03 * abs(expected).max()


def test_a_scale_for_each_row_of_a_table_stays() -> None:
    """Products have no place for it."""
    content = used_twice(np.full(8, 0.5, np.float32), axis=0)
    assert multiply_bytes(content) is content


def test_an_encoder_keeps_its_bytes(tmp_path: Path) -> None:
    """All products of an encoder of icefall are of bytes, with those that read the same rows."""
    folder = make_transducer_folder(tmp_path, exact=False)
    path = tmp_path / "encoder.int8.onnx"
    quantize_dynamic(folder / "encoder-epoch-1-avg-1.onnx", path, op_types_to_quantize=["MatMul"])
    before, after = operators(path.read_bytes()), operators(graph_content(read_graph_file(path)))
    assert after["MatMulIntegerToFloat"] == before["MatMulInteger"] > 10
    assert after["QuantizeLinear"] == before["DynamicQuantizeLinear"]
    assert open_graph(read_graph_file(path)).get_inputs()
