"""What an ONNX file says about itself."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from streamer.models.onnx_file import ElementType, GraphFileError, read_graph_file
from workshop.graphs.exact_icefall import make_ctc_folder
from workshop.graphs.exact_moonshine import convert_to_ort


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_ctc_folder(tmp_path_factory.mktemp("ctc")) / "model.onnx"


def test_what_the_library_of_onnx_reads(graph: Path) -> None:
    """Metadata, names, types and shapes are those that the library of the format reads."""
    found, model = read_graph_file(graph), onnx.load(str(graph))
    assert found.metadata == {each.key: each.value for each in model.metadata_props}
    for ports, values in ((found.inputs, model.graph.input), (found.outputs, model.graph.output)):
        assert [port.name for port in ports] == [value.name for value in values]
        for port, value in zip(ports, values, strict=True):
            assert port.type == ElementType(value.type.tensor_type.elem_type)
            dims = value.type.tensor_type.shape.dim
            assert port.shape == tuple(dim.dim_param or dim.dim_value for dim in dims)
    assert not found.quantised


def test_a_file_that_is_cut_off_anywhere(graph: Path, tmp_path: Path) -> None:
    """A file that was copied in part is refused, wherever it ends."""
    content, partial = graph.read_bytes(), tmp_path / "model.onnx"
    for length in (1, 2, 10, 100, len(content) // 2, len(content) - 300, len(content) - 1):
        partial.write_bytes(content[:length])
        with pytest.raises(GraphFileError, match=r"cut off or is not an ONNX graph"):
            read_graph_file(partial)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b"<!DOCTYPE html><html>Not found</html>", "not an ONNX graph"),
        (b"\xff" * 100, "not an ONNX graph"),
    ],
)
def test_what_is_no_graph(content: bytes, said: str, tmp_path: Path) -> None:
    """A sentence says what the file is instead."""
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(GraphFileError, match=said):
        read_graph_file(path)


def test_weights_in_a_missing_file(graph: Path, tmp_path: Path) -> None:
    """A graph whose weights are in another file needs that file."""
    path = tmp_path / "model.onnx"
    onnx.save(onnx.load(str(graph)), str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert read_graph_file(path).inputs
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(GraphFileError, match=r"needs the file weights\.bin"):
        read_graph_file(path)


@pytest.fixture(scope="module")
def converted(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ort") / "model.ort"
    convert_to_ort(graph, path)
    return path


def test_a_file_in_the_format_of_onnxruntime(graph: Path, converted: Path) -> None:
    """Names, types and shapes are those of the ONNX file from which it was made."""
    found, source = read_graph_file(converted), read_graph_file(graph)
    assert (found.inputs, found.outputs) == (source.inputs, source.outputs)
    assert found.ort
    assert not found.quantised


def test_such_a_file_that_is_cut_off_anywhere(converted: Path, tmp_path: Path) -> None:
    """It is refused, wherever it ends: its weights are looked at, too."""
    content, partial = converted.read_bytes(), tmp_path / "model.ort"
    for length in (8, 9, 40, 100, len(content) // 4, len(content) // 2):
        partial.write_bytes(content[:length])
        with pytest.raises(GraphFileError, match=r"cut off or is not an ONNX graph"):
            read_graph_file(partial)
