"""Values that depend only on the number of streams are not computed in every step."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from streamer.engine.public.batch_graph import BatchGraph
from streamer.engine.public.sessions import open_graph
from streamer.models.onnx_file import GraphFile, read_graph_file
from workshop.graphs.exact_icefall import BATCH, GraphBuilder

FRAMES, UNITS = 6, 4
AXES = {"sound": ((1, FRAMES, UNITS), 0), "kept": ((FRAMES, 1, UNITS), 1)}

Array = NDArray[Any]
Middle = Callable[[GraphBuilder, str], str]


def size(graph: GraphBuilder, value: str, axis: int) -> str:
    """Add the size of a tensor, as PyTorch exports it."""
    return graph.node("Gather", graph.node("Shape", value), graph.constant(axis, np.int64))


def same(graph: GraphBuilder, value: str) -> str:
    """Add nothing between the sum and its size."""
    return value


def as_list(graph: GraphBuilder, number: str) -> str:
    """Add a list with one number."""
    return graph.node("Unsqueeze", number, graph.constant([0], np.int64))


def positions(graph: GraphBuilder, value: str) -> str:
    """Add the numbers of the frames, for the weights of positions."""
    frames = graph.node("Range", graph.constant(0, np.int64), size(graph, value, 1), graph.constant(1, np.int64))
    return graph.node("Unsqueeze", graph.node("Cast", frames, to=onnx.TensorProto.FLOAT), graph.constant([1], np.int64))


def chance(graph: GraphBuilder, value: str) -> str:
    """Add random numbers between the sum and its size."""
    return graph.node("RandomUniformLike", value)


def dropout(graph: GraphBuilder, value: str) -> str:
    """Add the dropout of training."""
    return graph.node("Dropout", value)


def unknown(graph: GraphBuilder, value: str) -> str:
    """Add an operator that is not known."""
    first = graph.node("Slice", value, graph.constant([0], np.int64), graph.constant([1], np.int64))
    return graph.node("ScatterND", value, graph.constant([[0]], np.int64), first)


def made(folder: Path, middle: Middle = same, most: int | None = None) -> Path:
    """Return a graph that adds positions to sums, and shapes both by the sizes of a tensor in the middle."""
    graph = GraphBuilder(0)
    sound, kept = graph.input("sound", [BATCH, FRAMES, UNITS]), graph.input("kept", [FRAMES, BATCH, UNITS])
    total = graph.node("MatMul", sound, graph.constant(graph.signs(UNITS, UNITS)))
    total = graph.node("Add", total, graph.node("Transpose", kept, perm=[1, 0, 2]))
    between = middle(graph, total)
    weighed = graph.node("MatMul", positions(graph, between), graph.constant(graph.signs(1, UNITS)))
    streams = size(graph, between, 0)
    if most is not None:  # more streams are not counted
        streams = graph.node("Min", streams, graph.constant(most, np.int64))
        total = graph.node("Mul", total, graph.node("Cast", streams, to=onnx.TensorProto.FLOAT))
        streams = size(graph, between, 0)
    rest = graph.constant([FRAMES * UNITS], np.int64)
    shape = graph.node("Concat", as_list(graph, streams), rest, axis=0)
    graph.output(graph.node("Reshape", graph.node("Add", total, weighed), shape), "frames", [BATCH, FRAMES * UNITS])
    path = folder / "graph.onnx"
    graph.save(path, {})
    return path


def feeds(streams: int) -> dict[str, Array]:
    """Return inputs for this many streams."""
    random = np.random.default_rng(streams)
    shapes = {"sound": (streams, FRAMES, UNITS), "kept": (FRAMES, streams, UNITS)}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def frames(graph: BatchGraph, streams: int) -> Array:
    """Return the results of a graph for this many streams."""
    return np.asarray(graph.session().run(["frames"], feeds(streams))[0])


def trial(graph: BatchGraph) -> list[Array]:
    """Return the results for one stream and for two."""
    return [frames(graph, streams) for streams in (1, 2)]


def until(state: Callable[[], bool]) -> None:
    """Wait until this holds."""
    end = time.monotonic() + 60
    while not state():
        assert time.monotonic() < end
        time.sleep(0.01)


def whole(graph: GraphFile, streams: int) -> Array:
    """Return the results of the original graph."""
    return np.asarray(open_graph(graph).run(["frames"], feeds(streams))[0])


def test_values_are_replaced(tmp_path: Path) -> None:
    """The graph without sizes and positions gives the same bits for any number of streams."""
    graph = read_graph_file(made(tmp_path))
    found = BatchGraph(graph, AXES, trial)
    for streams in (1, 5, 2, 9):
        assert np.array_equal(frames(found, streams), whole(graph, streams))
    assert found.shortened


@pytest.mark.parametrize("middle", [chance, dropout, unknown])
def test_other_graphs_stay(tmp_path: Path, middle: Middle) -> None:
    """A graph is not changed if an operator on the way to the sizes is random or unknown."""
    assert not BatchGraph(read_graph_file(made(tmp_path, middle)), AXES, trial).shortened


def test_shapes_that_are_not_fed(tmp_path: Path) -> None:
    """Values that depend on an input with an unknown shape are not replaced."""
    assert not BatchGraph(read_graph_file(made(tmp_path)), {"sound": AXES["sound"]}, trial).shortened


def test_many_streams_in_parts(tmp_path: Path) -> None:
    """A batch is computed in parts until the values for its number of streams are known to be right."""
    found = BatchGraph(read_graph_file(made(tmp_path)), AXES, trial)
    assert [found.parts(streams) for streams in (1, 2, 8, 31)] == [[1], [2], [8], [8, 8, 8, 4, 2, 1]]
    until(lambda: found.parts(31) == [31])
    assert found.parts(30) == [8, 8, 8, 4, 2]


def test_numbers_are_checked_ahead(tmp_path: Path) -> None:
    """While nothing is computed, the usual numbers are checked before they come. Others still come in parts."""
    found = BatchGraph(read_graph_file(made(tmp_path)), AXES, trial)
    found.check_ahead()
    until(lambda: found.checked == set(range(1, 33)))
    assert [found.parts(streams) for streams in (3, 27, 32, 35)] == [[3], [27], [32], [32, 3]]


def test_numbers_that_are_wrong_are_found_ahead(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each is told once, and the others are used."""
    found = BatchGraph(read_graph_file(made(tmp_path, most=30)), AXES, trial)
    found.check_ahead()
    until(lambda: len(caplog.records) == 2)
    assert found.checked == set(range(1, 31))
    assert found.parts(31) == [30, 1]


def test_numbers_that_grow_otherwise(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If a value is not as expected, the batch is computed in parts, and the log says so once."""
    graph = read_graph_file(made(tmp_path, most=9))
    found = BatchGraph(graph, AXES, trial)
    until(lambda: found.parts(9) == [9])
    until(lambda: found.parts(10) != [9, 1] or bool(caplog.records))
    assert found.parts(10) == [9, 1]
    [record] = caplog.records
    assert (
        "10 streams are computed in parts, because some sizes or positions are not as expected" in record.getMessage()
    )


def test_numbers_that_soon_grow_otherwise(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If a value is wrong for few streams, the whole graph is computed, and the log says so."""
    graph = read_graph_file(made(tmp_path, most=4))
    found = BatchGraph(graph, AXES, trial)
    assert not found.shortened
    assert found.parts(11) == [11]
    assert np.array_equal(frames(found, 7), whole(graph, 7))
    assert "those for 8 streams are not as expected" in caplog.text


def test_a_trial_with_other_numbers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If the graph gives other numbers in the trial, the whole one is used, and the log says so."""
    graph, turn = read_graph_file(made(tmp_path)), itertools.count()
    found = BatchGraph(graph, AXES, lambda computed: [*trial(computed), np.array(next(turn))])
    assert not found.shortened
    assert np.array_equal(frames(found, 2), whole(graph, 2))
    assert "the graph gives other numbers without them" in caplog.text
