"""Which folders of streaming models of Moonshine are used, and what is said about the others."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from streamer.models.layout import Architecture, Family, SearchKind
from streamer.models.model_folder import ModelFolderError, holds_graphs, read_any_folder
from streamer.models.moonshine_folder import (
    PARTS,
    MoonshineFolder,
    read_moonshine_folder,
    read_tokens_of_moonshine,
)
from streamer.models.onnx_file import ElementType
from tests.models.memory_limit import little_memory
from workshop.graphs.exact_icefall import GraphBuilder
from workshop.graphs.exact_moonshine import TOKENS, make_moonshine_folder, table_entry, write_ort

CONFIG, TABLE, ENCODER = "streaming_config.json", "tokenizer.bin", "encoder.ort"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_moonshine_folder(tmp_path_factory.mktemp("small"))


@pytest.fixture
def folder(small: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small, tmp_path / "model"))


def test_a_folder(folder: Path) -> None:
    """The configuration gives the sizes, and the graphs fit them."""
    public = read_any_folder(folder)
    assert isinstance(public, MoonshineFolder)
    assert public.family == Family(Architecture.MOONSHINE, SearchKind.DECODER)
    assert public.family.title == "Moonshine streaming"
    assert public.together == set(PARTS)
    assert public.costs == ()
    assert (public.layout.left, public.layout.ahead, public.layout.step_samples) == (32, 16, 5120)
    assert public.layout.states["conv1_buffer"] == (ElementType.FLOAT, (6, 4))
    assert 64_000 < public.layout.state_bytes < 80_000
    assert public.tokens[3:6] == TOKENS[3:6]
    assert [public.tokens[number] for number in (0, 1, 2, -1)] == ["<0>", "<1>", "<2>", f"<{len(TOKENS) - 1}>"]
    assert len(public.graphs) == 5


def test_graphs_for_one_stream(tmp_path: Path) -> None:
    """The makers export graphs for exactly one stream. These are computed one after the other."""
    public = read_moonshine_folder(make_moonshine_folder(tmp_path, batch=1))
    assert public.together == set()
    assert public.costs == ("encoder.ort computes one stream at a time, so many cost as much as each alone",)


def test_a_graph_that_rounds_by_the_whole_batch(folder: Path) -> None:
    """So is a graph that scales its input by all streams of a batch."""
    builder = GraphBuilder(0)
    frames = builder.input("features", ("N", "T", 16))
    rounded, scale, zero = "rounded", "scale", "zero"
    builder.nodes("DynamicQuantizeLinear", [frames], [rounded, scale, zero])
    builder.output(builder.node("DequantizeLinear", rounded, scale, zero), "encoded", ("N", "T", 16))
    write_ort(builder, folder / ENCODER)
    assert read_moonshine_folder(folder).together == set(PARTS) - {"encoder"}


def test_tokens_of_bytes_and_long_ones(folder: Path) -> None:
    """A table may have a token for each byte, and tokens with lengths in two bytes."""
    long = "▁" + "a" * 200
    table = [b"", b"<s>", b"</s>", *(bytes([byte]) for byte in range(256)), long.encode(), b"\xc3\xa4"]
    (folder / TABLE).write_bytes(b"".join(map(table_entry, table)))
    tokens = read_tokens_of_moonshine(folder / TABLE, len(table))
    assert tokens[:5] == ("<0>", "<1>", "<2>", "<0x00>", "<0x01>")
    assert tokens[-2:] == (long, "ä")


def _configured(folder: Path, **values: object) -> None:
    content = json.loads((folder / CONFIG).read_text(encoding="utf-8")) | values
    (folder / CONFIG).write_text(json.dumps(content), encoding="utf-8")


def _config(**values: object) -> Callable[[Path], object]:
    return lambda folder: _configured(folder, **values)


def _written(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def _cut(name: str, size: int) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def _encoder(*shape: int | str, name: str = "features", result: str = "encoded") -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        builder = GraphBuilder(0)
        builder.output(builder.input(name, shape), result, shape)
        write_ort(builder, folder / ENCODER)

    return change


def _pipe(name: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / ENCODER).unlink(), r"is not complete: it has no encoder\.ort"),
        (lambda folder: (folder / TABLE).unlink(), r"is not complete: it has no tokenizer\.bin"),
        (lambda folder: (folder / CONFIG).unlink(), r"is not complete: it has no streaming_config\.json"),
        (_written(CONFIG, b"{"), r"streaming_config\.json is not JSON"),
        (_written(CONFIG, b"[" * 50_000), r"streaming_config\.json is not JSON"),
        (_written(CONFIG, b"\xff"), r"streaming_config\.json is not JSON"),
        (_written(CONFIG, b"[]"), r"must hold a JSON object"),
        (_written(CONFIG, b" " * 70_000), r"is larger than 64 KiB"),
        (_pipe(CONFIG), r"streaming_config\.json is no file"),
        (_pipe(TABLE), r"tokenizer\.bin is no file"),
        (_pipe(ENCODER), r"encoder\.ort is no file"),
        (_config(depth=None), r"has nothing as depth, which must be from 1 to 64"),
        (_config(depth=10**9), r"has 1000000000 as depth"),
        (_config(depth=True), r"has true as depth"),
        (_config(encoder_dim="16"), r'has "16" as encoder_dim'),
        (_config(eos_id=10_000), r"a first or a last token beyond its \d+ tokens"),
        (_config(frame_len=160), r"frames of 160 samples, and only those of 80 are known"),
        (_config(encoder_dim=32), r"frontend\.ort has features of the size 16 on axis 2, where it must be 32"),
        (_config(encoder_dim=8192, decoder_dim=8192, depth=64, total_lookahead=250), r"needs \d+ MiB for the state"),
        (_config(head_dim=4), r"cross_kv\.ort has \w_cross of the size 8 on axis 4"),
        (_written(ENCODER, b""), r"encoder\.ort is empty"),
        (_written(ENCODER, b"version https://git-lfs.github.com/spec/v1"), r"only a pointer to a file of Git LFS"),
        (_written(ENCODER, b"\x10\0\0\0ORTM" + b"\xff" * 40), r"encoder\.ort is cut off or is not"),
        (_cut(ENCODER, 300), r"encoder\.ort is cut off or is not"),
        (_encoder("N", "T", 16, name="x"), r"has the inputs x, not features"),
        (_encoder("N", "T", 16, result="y"), r"has no output encoded"),
        (_encoder("N", 7, 16), r"of the size 7 on axis 1, where it must be any size"),
        (_encoder("N", 16), r"with 2 dimensions, not 3"),
        (_written(TABLE, b"\x03abc"), r"has 1 tokens, and the model has \d+: it is cut off"),
        (_written(TABLE, b"\x7f"), r"is cut off, or is no table of tokens"),
        (_written(TABLE, b"\xff"), r"is cut off: copy it again"),
        (_written(TABLE, b"\xff\x10" + bytes(10_000)), r"a token of \d+ bytes, and at most 256"),
    ],
)
def test_what_cannot_be_used(damage: Callable[[Path], object], said: str, folder: Path) -> None:
    """A sentence says what is wrong with the folder, before any library computes it, and without much memory."""
    damage(folder)
    assert holds_graphs(folder)
    with little_memory(folder), pytest.raises(ModelFolderError, match=said) as refusal:
        read_any_folder(folder)
    assert str(refusal.value).isprintable()


def test_an_onnx_file_with_the_name_of_another_format(folder: Path) -> None:
    """The sentence has the command that converts it."""
    builder = GraphBuilder(0)
    builder.output(builder.input("features", ("N", "T", 16)), "encoded", ("N", "T", 16))
    builder.save(folder / ENCODER, {})
    with pytest.raises(ModelFolderError, match=r"which `python -m onnxruntime\.tools\.convert_onnx_models_to_ort` m"):
        read_any_folder(folder)


def test_damaged_bytes(folder: Path) -> None:
    """Whatever byte is damaged, the folder is refused with a sentence, or read."""
    content = (folder / ENCODER).read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        for place in random.integers(0, len(content), 4):
            damaged[place] = int(random.integers(256))
        (folder / ENCODER).write_bytes(damaged)
        try:
            read_any_folder(folder)
        except ModelFolderError:
            refused += 1
    assert refused
