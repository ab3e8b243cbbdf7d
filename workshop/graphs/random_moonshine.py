"""Makes folders with a streaming model of Moonshine of real size and architecture, with random weights.

It recognises nothing, but costs as much as a real one. As in the files of the makers, the frontend has full numbers,
and the other parts are in int8 with a scale for each output. `batch`: 1 as there, or the name of a free axis; then all
parts have full numbers.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from onnx import TensorProto
from onnxruntime.quantization import QuantType, quantize_dynamic

from workshop.graphs.exact_icefall import BATCH, Batch, GraphBuilder
from workshop.graphs.exact_moonshine import convert_to_ort, table_entry

_FRAME, _KEPT, _KERNEL = 80, 79, 5
_LEFT: Final = 16
_PLACES: Final = 4096
_BEGIN, _END, _TOKENS = 1, 2, 32_768
_NEVER: Final = -1e9


@dataclass(frozen=True)
class Size:
    """The sizes of one of the published models, by its `streaming_config.json` and the sizes of its files."""

    encoder: int
    decoder: int
    depth: int
    heads: int

    @property
    def ahead(self) -> list[int]:
        """How many features each layer of the encoder reads ahead: 4, but none in the layers between."""
        return [4 if layer < 2 or layer >= self.depth - 2 else 0 for layer in range(self.depth)]


SIZES: Final = {"tiny": Size(320, 320, 6, 8), "small": Size(620, 512, 10, 8), "medium": Size(768, 640, 14, 10)}


def make_random_folder(folder: Path, size: Size, seed: int = 0, *, batch: Batch = 1) -> Path:
    """Make a folder with a model of this size."""
    parts = {
        "frontend": _frontend(seed, size, batch),
        "encoder": _encoder(seed + 1, size, batch),
        "adapter": _adapter(seed + 2, size, batch),
        "cross_kv": _cross(seed + 3, size, batch),
        "decoder_kv": _decoder(seed + 4, size, batch),
    }
    with tempfile.TemporaryDirectory() as name:
        for part, builder in parts.items():
            path = Path(name) / f"{part}.onnx"
            builder.save(path, {})
            if batch != BATCH and part != "frontend":
                rounded = path.with_suffix(".int8.onnx")
                quantize_dynamic(path, rounded, per_channel=True, weight_type=QuantType.QInt8)
                path = rounded
            convert_to_ort(path, folder / f"{part}.ort")
    config = {
        "encoder_dim": size.encoder,
        "decoder_dim": size.decoder,
        "depth": size.depth,
        "nheads": size.heads,
        "head_dim": size.decoder // size.heads,
        "vocab_size": _TOKENS,
        "bos_id": _BEGIN,
        "eos_id": _END,
        "frame_len": _FRAME,
        "total_lookahead": sum(size.ahead),
        "d_model_frontend": size.encoder,
        "c1": 2 * size.encoder,
        "c2": size.encoder,
    }
    (folder / "streaming_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    table = [b"<unk>", b"<s>", b"</s>", *(f"▁{number:x}".encode() for number in range(3, _TOKENS))]
    (folder / "tokenizer.bin").write_bytes(b"".join(map(table_entry, table)))
    return folder


def _frontend(seed: int, size: Size, batch: Batch) -> GraphBuilder:
    builder, first, second = GraphBuilder(seed), size.encoder, 2 * size.encoder
    audio = builder.input("audio_chunk", (batch, "samples"))
    kept = builder.input("sample_buffer", (batch, _KEPT))
    count = builder.input("sample_len", (batch,), TensorProto.INT64)
    buffers = [builder.input(f"conv{n}_buffer", (batch, width, 4)) for n, width in ((1, first), (2, second))]
    frame_count = builder.input("frame_count", (batch,), TensorProto.INT64)
    frames = builder.node("Reshape", audio, builder.numbers(0, -1, _FRAME))
    centred = builder.node("Sub", frames, builder.node("ReduceMean", frames, axes=[2], keepdims=1))
    square = builder.node("ReduceMean", builder.node("Mul", centred, centred), axes=[2], keepdims=1)
    deviation = builder.node("Sqrt", builder.node("Add", square, builder.constant(1e-6)))
    even = builder.node("Asinh", builder.node("Div", centred, deviation))
    hidden = _silu(builder, _linear(builder, even, _FRAME, first))
    value = builder.node("Transpose", hidden, perm=[0, 2, 1])
    ends = []
    for buffer, inner, outer in ((buffers[0], first, second), (buffers[1], second, first)):
        ends.append(_last(builder, value, 4))
        sound = builder.node("Concat", buffer, value, axis=2)
        weights = builder.constant(_random(builder, outer, inner, _KERNEL) / np.sqrt(inner * _KERNEL))
        value = builder.node("Conv", sound, weights, kernel_shape=[_KERNEL], strides=[2])
        if outer == second:
            value = _silu(builder, value)
    builder.output(builder.node("Transpose", value, perm=[0, 2, 1]), "features", (batch, "features", first))
    builder.output(kept, "sample_buffer_out", (batch, _KEPT))
    builder.output(count, "sample_len_out", (batch,), TensorProto.INT64)
    for number, (end, width) in enumerate(zip(ends, (first, second), strict=True), 1):
        builder.output(end, f"conv{number}_buffer_out", (batch, width, 4))
    total = builder.node("Add", frame_count, builder.number(16))
    builder.output(total, "frame_count_out", (batch,), TensorProto.INT64)
    return builder


def _encoder(seed: int, size: Size, batch: Batch) -> GraphBuilder:
    builder, width = GraphBuilder(seed), size.encoder
    rows = builder.input("features", (batch, "frames", width))
    places = builder.count(rows, 1)
    distance = builder.node("Sub", builder.node("Unsqueeze", places, builder.numbers(1)), places)
    heads = next(heads for heads in (8, 10, 4) if width % heads == 0)
    for ahead in size.ahead:
        seen = builder.node(
            "And",
            builder.node("LessOrEqual", distance, builder.number(_LEFT)),
            builder.node("GreaterOrEqual", distance, builder.number(-ahead)),
        )
        inner = _norm(builder, rows, width)
        query, key, value = (_by_head(builder, _linear(builder, inner, width, width), heads, width) for _ in range(3))
        merged = _attended(builder, query, key, value, heads, width, seen)
        rows = builder.node("Add", rows, _linear(builder, merged, width, width))
        hidden = _silu(builder, _linear(builder, _norm(builder, rows, width), width, 4 * width))
        rows = builder.node("Add", rows, _linear(builder, hidden, 4 * width, width))
    builder.output(_norm(builder, rows, width), "encoded", (batch, "frames", width))
    return builder


def _adapter(seed: int, size: Size, batch: Batch) -> GraphBuilder:
    builder, width = GraphBuilder(seed), size.encoder
    frames = builder.input("encoded", (batch, "frames", width))
    offset = builder.input("pos_offset", (batch,), TensorProto.INT64)
    column = builder.node("Unsqueeze", offset, builder.numbers(1))
    places = builder.node("Add", column, builder.count(frames, 1))
    placed = builder.node(
        "Add", frames, builder.node("Gather", builder.constant(_random(builder, _PLACES, width)), places)
    )
    builder.output(_linear(builder, placed, width, size.decoder), "memory", (batch, "frames", size.decoder))
    return builder


def _cross(seed: int, size: Size, batch: Batch) -> GraphBuilder:
    builder, width = GraphBuilder(seed), size.decoder
    memory = builder.input("memory", (batch, "frames", width))
    for name in ("k_cross", "v_cross"):
        layers = [
            _by_head(builder, _linear(builder, memory, width, width), size.heads, width) for _ in range(size.depth)
        ]
        builder.output(builder.stacked(layers), name, (size.depth, batch, size.heads, "frames", width // size.heads))
    return builder


def _decoder(seed: int, size: Size, batch: Batch) -> GraphBuilder:
    builder, width, heads = GraphBuilder(seed), size.decoder, size.heads
    token = builder.input("token", (batch, "tokens"), TensorProto.INT64)
    pasts = [builder.input(name, (size.depth, batch, heads, "past", width // heads)) for name in ("k_self", "v_self")]
    sound = [
        builder.input(name, (size.depth, batch, heads, "frames", width // heads))
        for name in ("out_k_cross", "out_v_cross")
    ]
    before = builder.node("Gather", builder.node("Shape", pasts[0]), builder.number(3))
    places = builder.node("Add", builder.count(token, 1), before)
    column = builder.node("Unsqueeze", places, builder.numbers(1))
    table = _random(builder, _TOKENS, width)
    order = builder.node("Gather", builder.constant(_random(builder, _PLACES, width)), places)
    rows = builder.node("Add", builder.node("Gather", builder.constant(table), token), order)
    caches: tuple[list[str], list[str]] = ([], [])
    for layer in range(size.depth):
        at, inner = builder.number(layer), _norm(builder, rows, width)
        query = _by_head(builder, _linear(builder, inner, width, width), heads, width)
        both = []
        for cache, past in zip(caches, pasts, strict=True):
            new = _by_head(builder, _linear(builder, inner, width, width), heads, width)
            both.append(builder.node("Concat", builder.node("Gather", past, at, axis=0), new, axis=2))
            cache.append(both[-1])
        seen = builder.node("LessOrEqual", builder.count(both[0], 2), column)
        merged = _attended(builder, query, both[0], both[1], heads, width, seen)
        rows = builder.node("Add", rows, _linear(builder, merged, width, width))
        query = _by_head(builder, _linear(builder, _norm(builder, rows, width), width, width), heads, width)
        looked_up = [builder.node("Gather", part, at, axis=0) for part in sound]
        merged = _attended(builder, query, looked_up[0], looked_up[1], heads, width)
        rows = builder.node("Add", rows, _linear(builder, merged, width, width))
        inner = _norm(builder, rows, width)
        gate, hidden = (_linear(builder, inner, width, 4 * width) for _ in range(2))
        gated = builder.node("Mul", hidden, _silu(builder, gate))
        rows = builder.node("Add", rows, _linear(builder, gated, 4 * width, width))
    offsets = np.zeros(_TOKENS, np.float32)
    offsets[[0, _BEGIN, _END]] = _NEVER  # as many tokens as may be, which is more than anybody says
    scores = _linear(builder, _norm(builder, rows, width), width, _TOKENS)
    scores = builder.node("Add", scores, builder.constant(offsets))
    builder.output(scores, "logits", (batch, "tokens", _TOKENS))
    for name, cache in zip(("out_k_self", "out_v_self"), caches, strict=True):
        builder.output(builder.stacked(cache), name, (size.depth, batch, heads, "sofar", width // heads))
    return builder


def _attended(
    builder: GraphBuilder, query: str, key: str, value: str, heads: int, width: int, seen: str | None = None
) -> str:
    """Add attention, to what is `seen` [queries, keys] if not to everything."""
    scores = builder.node("MatMul", query, builder.node("Transpose", key, perm=[0, 1, 3, 2]))
    scores = builder.node("Mul", scores, builder.constant((width / heads) ** -0.5))
    if seen is not None:
        scores = builder.node("Where", seen, scores, builder.constant(_NEVER))
    summed = builder.node("MatMul", builder.node("Softmax", scores, axis=-1), value)
    return builder.node("Reshape", builder.node("Transpose", summed, perm=[0, 2, 1, 3]), builder.numbers(0, 0, width))


def _linear(builder: GraphBuilder, rows: str, inner: int, outer: int) -> str:
    return builder.node("MatMul", rows, builder.constant(_random(builder, inner, outer) / np.sqrt(inner)))


def _norm(builder: GraphBuilder, rows: str, width: int) -> str:
    return builder.node("LayerNormalization", rows, builder.constant(np.ones(width)), axis=-1, epsilon=1e-5)


def _silu(builder: GraphBuilder, value: str) -> str:
    return builder.node("Mul", value, builder.node("Sigmoid", value))


def _random(builder: GraphBuilder, *shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return builder.random.standard_normal(shape, np.float32)


def _by_head(builder: GraphBuilder, rows: str, heads: int, width: int) -> str:
    split = builder.node("Reshape", rows, builder.numbers(0, 0, heads, width // heads))
    return builder.node("Transpose", split, perm=[0, 2, 1, 3])


def _last(builder: GraphBuilder, value: str, number: int) -> str:
    return builder.node("Slice", value, *(builder.numbers(each) for each in (-number, 1 << 30, 2)))
