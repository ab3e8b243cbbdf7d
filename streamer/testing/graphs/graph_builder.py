"""Writes small ONNX graphs. Their numbers are whole, so that every sum is exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

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
