"""Graphs in int8 become graphs of full numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from streamer.engine.public.sessions import open_graph
from streamer.models.int8_graph import ROUNDING, Int8Graph, UnknownInt8
from streamer.models.onnx_file import read_graph_file
from workshop.graphs.exact_icefall import JOINED, GraphBuilder, make_transducer_folder

JOINER, ENCODER = "joiner-epoch-1-avg-1.onnx", "encoder-epoch-1-avg-1.onnx"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_transducer_folder(tmp_path_factory.mktemp("transducer"), exact=False)


def quantised(folder: Path, name: str, to: Path, **how: object) -> Path:
    """The same graph as the recipes of these models export it in int8."""
    path = to / "graph.int8.onnx"
    quantize_dynamic(folder / name, path, op_types_to_quantize=["MatMul"], **how)
    return path


@pytest.mark.parametrize("how", [{"weight_type": QuantType.QInt8}, {"per_channel": True}])
def test_a_product(how: dict[str, object], folder: Path, tmp_path: Path) -> None:
    """The scores are nearly those of full weights, and a row gets the same ones in any company."""
    path = quantised(folder, JOINER, tmp_path, **how)
    full = onnxruntime.InferenceSession(str(folder / JOINER), providers=["CPUExecutionProvider"])
    rewritten = open_graph(read_graph_file(path))
    rows = np.random.default_rng(1).normal(0, 3, (6, JOINED)).astype(np.float32)
    rows[:2] /= 10  # so the scale of all of them is another one

    def scores(session: onnxruntime.InferenceSession, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        found = session.run(None, {"encoder_out": rows[:count], "decoder_out": rows[:count]})[0]
        return np.asarray(found)

    assert abs(scores(full, 6) - scores(rewritten, 6)).max() < 0.1
    assert np.array_equal(scores(rewritten, 6)[:2], scores(rewritten, 2))
    in_int8 = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert not np.array_equal(scores(in_int8, 6)[:2], scores(in_int8, 2))


def test_a_whole_encoder(folder: Path, tmp_path: Path) -> None:
    """Nothing that rounds remains, several products may read one input, and everything else stays as it is."""
    path = quantised(folder, ENCODER, tmp_path)
    before, content = onnx.load(str(path)), Int8Graph(path.read_bytes()).full_content()
    after = onnx.load_from_string(content)
    onnx.checker.check_model(after)
    assert ROUNDING not in content
    operators = [[node.op_type for node in model.graph.node] for model in (before, after)]
    assert operators[1].count("MatMul") == operators[0].count("MatMulInteger") > 10
    assert operators[1].count("Mul") == onnx_count(folder / ENCODER, "Mul")
    for part in ("input", "output", "initializer"):
        assert getattr(before.graph, part) == getattr(after.graph, part)
    assert before.metadata_props == after.metadata_props


def test_convolutions_and_recurrent_networks(tmp_path: Path) -> None:
    """What the recipes of NeMo round is computed in full numbers, too: convolutions, and networks that round inside."""
    path = tmp_path / "graph.onnx"
    _make_mixed_graph(path)
    quantize_dynamic(path, tmp_path / "graph.int8.onnx", weight_type=QuantType.QUInt8)
    assert ROUNDING not in Int8Graph((tmp_path / "graph.int8.onnx").read_bytes()).full_content()
    full, rewritten = (open_graph(read_graph_file(each)) for each in (path, tmp_path / "graph.int8.onnx"))
    random = np.random.default_rng(2)
    feeds = {"x": random.normal(0, 1, (4, 3, 3)), "state": random.normal(0, 1, (1, 4, 6))}
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}
    expected, found = (session.run(None, feeds)[0] for session in (full, rewritten))
    assert abs(expected - found).max() < 0.1
    alone = rewritten.run(None, {"x": feeds["x"][:2], "state": feeds["state"][:, :2]})[0]
    assert np.array_equal(found[:, :, :2], alone)


def _make_mixed_graph(path: Path) -> None:
    """Two convolutions, one of them with a bias, and a recurrent network that reads one frame."""
    builder = GraphBuilder(1)
    features, state = builder.input("x", ("N", 3, "T")), builder.input("state", (1, "N", 6))

    def weights(*shape: int) -> str:
        return builder.constant(builder.random.normal(0, 0.5, shape))

    heard = builder.node("Conv", features, weights(4, 3, 3), weights(4), kernel_shape=[3], pads=[1, 1])
    heard = builder.node("Conv", heard, weights(4, 1, 3), kernel_shape=[3], group=4)
    heard = builder.node("Transpose", heard, perm=[2, 0, 1])
    recurrent = (weights(1, 24, 4), weights(1, 24, 6), weights(1, 48))
    found = builder.node("LSTM", heard, *recurrent, "", state, state, hidden_size=6)
    builder.output(found, "y", ("T", 1, "N", 6))
    builder.save(path, {})


def onnx_count(path: Path, operator: str) -> int:
    """How many nodes of a file have this operator."""
    return sum(node.op_type == operator for node in onnx.load(str(path)).graph.node)


@pytest.mark.parametrize(
    ("change", "operator"),
    [({"MatMulInteger": "QLinearMatMul"}, "QLinearMatMul"), ({"Cast": "Identity"}, "MatMulInteger")],
)
def test_what_is_not_known(change: dict[str, str], operator: str, folder: Path, tmp_path: Path) -> None:
    """The error for an unknown way to compute in int8 names its operator."""
    model = onnx.load(str(quantised(folder, JOINER, tmp_path)))
    for node in model.graph.node:
        node.op_type = change.get(node.op_type, node.op_type)
    with pytest.raises(UnknownInt8, match=operator):
        Int8Graph(model.SerializeToString())


def test_scales_of_columns(folder: Path, tmp_path: Path) -> None:
    """A scale for each column is taken for a table of weights only, because elsewhere its axis is not known."""
    model = onnx.load(str(quantised(folder, JOINER, tmp_path, per_channel=True)))
    Int8Graph(model.SerializeToString())
    [weights] = [each for each in model.graph.initializer if each.name.endswith("_quantized")]
    weights.dims.insert(0, 1)
    with pytest.raises(UnknownInt8, match="MatMulInteger"):
        Int8Graph(model.SerializeToString())


def test_a_way_to_hide(folder: Path, tmp_path: Path) -> None:
    """A graph within a node may not round either."""
    model = onnx.load(str(folder / JOINER))
    rounding = helper.make_node("DynamicQuantizeLinear", ["encoder_out"], ["q", "scale", "zero"])
    inner = helper.make_graph([rounding], "inner", [], [])
    model.graph.node.append(helper.make_node("If", ["decoder_out"], ["any"], then_branch=inner, else_branch=inner))
    with pytest.raises(UnknownInt8, match="If"):
        Int8Graph(model.SerializeToString())
