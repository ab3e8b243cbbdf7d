"""What of each tensor in a graph follows from the number of streams alone, and not from what they say.

This is a proof along the nodes. The shape or the value of a tensor is said to follow only if every node on the way to
it has an operator that is listed here. These give the same for the same inputs, and have no nodes inside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import Final

from streamer.graphs.rewriting.editable_graph import Node


class Follows(IntEnum):
    """What of a tensor is known as soon as the number of streams is."""

    NOTHING = 0
    SHAPE = 1
    VALUE = 2  # and so the shape
    CONSTANT = 3  # the value, whatever the number of streams


SIZES: Final = frozenset({"Shape", "Size"})
"""They read only the shape of their input."""

_BY_SHAPES: Final = (
    *("Abs", "Add", "And", "Cast", "Ceil", "Clip", "Concat", "Constant", "Conv", "Cos", "Div", "Equal", "Erf", "Exp"),
    *("Flatten", "Floor", "Gather", "GatherElements", "Gemm", "Greater", "GreaterOrEqual", "HardSigmoid", "Identity"),
    *("LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "MatMul", "Max", "Min", "Mul"),
    *("Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Softmax"),
    *("Softplus", "Sqrt", "Sub", "Tanh", "Transpose", "Where", "Xor"),
)
_BY_FIRST: Final = ("ConstantOfShape",)
_BY_SECOND: Final = (
    *("Expand", "OneHot", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Reshape", "Split"),
    *("Squeeze", "Tile", "TopK", "Unsqueeze"),
)
READ_FOR_SHAPE: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys((*_BY_SHAPES, *SIZES), ()),
    **dict.fromkeys(_BY_FIRST, (0,)),
    **dict.fromkeys(_BY_SECOND, (1,)),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Slice": (1, 2, 3, 4),
}
"""The known operators. The shape of what they give follows from the shapes of all inputs, and from the values of these
inputs."""


def dependence(nodes: Iterable[Node], constants: Collection[str], fed: Collection[str]) -> dict[str, Follows]:
    """What of each tensor follows from the number of streams, if the shapes of the inputs that are fed do."""
    found = {**dict.fromkeys(fed, Follows.SHAPE), **dict.fromkeys(constants, Follows.CONSTANT)}
    for node in nodes:
        found |= dict.fromkeys(node.outputs, _of(node, found))
    return found


def _of(node: Node, found: Mapping[str, Follows]) -> Follows:
    """What of the outputs of this node follows."""
    if node.operator not in READ_FOR_SHAPE or node.domain not in ("", "ai.onnx"):
        return Follows.NOTHING
    inputs = [found.get(name, Follows.NOTHING) if name else Follows.CONSTANT for name in node.inputs]
    lowest = min(inputs, default=Follows.CONSTANT)
    if node.operator in SIZES and lowest is Follows.SHAPE:
        return Follows.VALUE
    if lowest is not Follows.SHAPE:
        return lowest
    read = [inputs[place] for place in READ_FOR_SHAPE[node.operator] if place < len(inputs)]
    return Follows.SHAPE if all(each >= Follows.VALUE for each in read) else Follows.NOTHING
