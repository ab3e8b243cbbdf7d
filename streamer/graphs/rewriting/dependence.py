"""Finds the tensors in a graph whose shape or value depends only on the number of streams, and not on the audio.

The result is proved node by node: it holds only if every node on the way to a tensor has an operator that is listed
here. These operators always give the same result for the same inputs, and contain no other nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import Final

from streamer.graphs.rewriting.editable_graph import Node


class Knowledge(IntEnum):
    """What is certain about a tensor if the number of streams is fixed."""

    NOTHING = 0
    SHAPE = 1
    VALUE = 2  # and so also its shape
    CONSTANT = 3  # the value, which is the same for any number of streams


SIZES: Final = frozenset({"Shape", "Size"})
"""The operators that read only the shape of their input."""

_BY_SHAPES: Final = """
    Abs Add And Cast Ceil Clip Concat Constant Conv Cos Div Equal Erf Exp Flatten Floor Gather GatherElements Gemm
    Greater GreaterOrEqual HardSigmoid Identity LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max
    Min Mul Neg Not Or PRelu Pow Reciprocal Relu Round Sigmoid Sign Sin Softmax Softplus Sqrt Sub Tanh Transpose Where
    Xor
"""
_BY_FIRST: Final = "ConstantOfShape"
_BY_SECOND: Final = """
    Expand OneHot ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum Reshape Split Squeeze Tile TopK Unsqueeze
"""
READ_FOR_SHAPE: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys((*_BY_SHAPES.split(), *SIZES), ()),
    **dict.fromkeys(_BY_FIRST.split(), (0,)),
    **dict.fromkeys(_BY_SECOND.split(), (1,)),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Slice": (1, 2, 3, 4),
}
"""All operators that are allowed. The shapes of all inputs, and the values of the inputs at these places, decide the
shape of the output."""


def dependence(nodes: Iterable[Node], constants: Collection[str], fed: Collection[str]) -> dict[str, Knowledge]:
    """Return what is certain about each tensor. `fed`: inputs whose shapes depend only on the number of streams."""
    knowledge = {**dict.fromkeys(fed, Knowledge.SHAPE), **dict.fromkeys(constants, Knowledge.CONSTANT)}
    for node in nodes:
        knowledge |= dict.fromkeys(node.outputs, _output_knowledge(node, knowledge))
    return knowledge


def _output_knowledge(node: Node, knowledge: Mapping[str, Knowledge]) -> Knowledge:
    """Return what is certain about the outputs of this node."""
    if node.operator not in READ_FOR_SHAPE or node.domain not in ("", "ai.onnx"):
        return Knowledge.NOTHING
    inputs = [knowledge.get(name, Knowledge.NOTHING) if name else Knowledge.CONSTANT for name in node.inputs]
    lowest = min(inputs, default=Knowledge.CONSTANT)
    if node.operator in SIZES and lowest is Knowledge.SHAPE:
        return Knowledge.VALUE
    if lowest is not Knowledge.SHAPE:
        return lowest
    read = [inputs[place] for place in READ_FOR_SHAPE[node.operator] if place < len(inputs)]
    return Knowledge.SHAPE if all(each >= Knowledge.VALUE for each in read) else Knowledge.NOTHING
