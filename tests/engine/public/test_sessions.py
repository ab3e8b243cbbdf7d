"""Graphs are opened with onnxruntime."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from streamer.engine.public.sessions import on_gpu, open_graph
from streamer.models.onnx_file import read_graph_file


def test_weights_in_another_file(tmp_path: Path) -> None:
    """A graph whose weights are in another file beside it is computed with them."""
    weights = np.random.default_rng(0).normal(size=(40, 30)).astype(np.float32)
    made = helper.make_graph(
        [helper.make_node("MatMul", ["rows", "weights"], ["found"])],
        "graph",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["N", 40])],
        [helper.make_tensor_value_info("found", TensorProto.FLOAT, ["N", 30])],
        [numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = tmp_path / "graph.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="graph.weights", size_threshold=100)
    assert path.stat().st_size < weights.nbytes
    rows = np.ones((2, 40), np.float32)
    (found,) = open_graph(read_graph_file(path)).run(None, {"rows": rows})
    assert np.allclose(found, rows @ weights, atol=1e-5)


@pytest.mark.skipif("CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="there is CUDA")
def test_without_cuda(caplog: pytest.LogCaptureFixture) -> None:
    """Where onnxruntime cannot use a GPU, the CPU computes, and the log names the package that is needed."""
    with caplog.at_level(logging.WARNING):
        assert on_gpu(0) is None
    assert "The public model computes on the CPU, although there is a GPU" in caplog.text
    assert "install the package onnxruntime-gpu instead of onnxruntime" in caplog.text
