"""What follows from the number of streams is found along the nodes."""

from __future__ import annotations

import pytest

from streamer.models.batch_values import Knowledge, dependence
from streamer.models.editable_graph import Node


def follows(*nodes: Node) -> Knowledge:
    """What of the last tensor follows, if the shape of `sound` does and `weights` are constant."""
    return dependence(nodes, ["weights"], ["sound"])[nodes[-1].outputs[0]]


SUM = Node("MatMul", ["sound", "weights"], ["sum"])
SIZE = Node("Shape", ["sum"], ["size"])


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([SUM], Knowledge.SHAPE),
        ([SUM, SIZE], Knowledge.VALUE),
        ([SUM, SIZE, Node("Mul", ["size", "weights"], ["found"])], Knowledge.VALUE),
        ([SUM, SIZE, Node("Reshape", ["sound", "size"], ["found"])], Knowledge.SHAPE),
        ([Node("Transpose", ["weights"], ["found"])], Knowledge.CONSTANT),
        ([Node("Shape", ["weights"], ["found"])], Knowledge.CONSTANT),
        ([Node("Slice", ["sound", "weights", "weights", "", "weights"], ["found"])], Knowledge.SHAPE),
    ],
)
def test_what_follows(nodes: list[Node], expected: Knowledge) -> None:
    """Shapes follow from shapes, and values from sizes and constants."""
    assert follows(*nodes) is expected


@pytest.mark.parametrize(
    "node",
    [
        Node("RandomUniformLike", ["sum"], ["found"]),
        Node("Dropout", ["sum"], ["found"]),
        Node("Loop", ["weights", "", "sum"], ["found"]),
        Node("NonZero", ["sum"], ["found"]),
        Node("Mul", ["sum", "weights"], ["found"], domain="of.somebody"),
        Node("Reshape", ["sum", "sound"], ["found"]),
        Node("Range", ["weights", "sound", "weights"], ["found"]),
        Node("Add", ["sum", "another_input"], ["found"]),
    ],
    ids=lambda node: node.operator,
)
def test_what_does_not(node: Node) -> None:
    """Nothing follows through chance, other nodes inside, unknown operators, and values of what is fed."""
    assert follows(SUM, node) is Knowledge.NOTHING
    assert follows(SUM, node, Node("Shape", ["found"], ["size"])) is Knowledge.NOTHING


def test_sizes_of_chance() -> None:
    """A constant that reaches an operator of chance is no constant behind it."""
    assert (
        follows(Node("RandomNormal", [], ["chance"]), Node("Add", ["chance", "weights"], ["sum"])) is Knowledge.NOTHING
    )
