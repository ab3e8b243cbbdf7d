"""Makes folders with a small streaming model of Moonshine. It recognises nothing sensible, but computes exactly.

All weights and sums are whole, as in the other models here, so every library gives the same tokens. Features depend on
all states of the frontend: a mixed-up slot shows at once. The encoder reads as far back and ahead as its configuration
says, the memory depends on the place of a frame, and each token on its part of the memory and on all tokens before it.

`batch`: the name of the axis of the streams, or 1 as in the files of the makers.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto

from streamer.models.moonshine_folder import CHUNK, FEATURE, KEPT_SAMPLES
from workshop.graphs.exact_icefall import (
    BATCH,
    HIDDEN,
    JOINED,
    Batch,
    GraphBuilder,
    State,
    add_frames,
    add_states,
    pooled,
)

DEPTH: Final = 2
_HEADS, _SIZE, _FIRST, _SECOND = 2, 8, 6, 10  # of the decoder; channels of the convolutions
_REACH: Final = (12, 8)  # the features back and ahead that a layer of the encoder reads
_PLACES: Final = 4096
_SPAN: Final = 8  # the frames of the memory between two tokens
_WIDTH: Final = 24  # those that a token depends on: the last tokens of a reading may change with more sound
_BEGIN, _END = 1, 2
_NEVER: Final = -1000
_LONG: Final = 128

# Pieces of two letters. Those that begin a word have other letters than the others, so that a text says its tokens.
_BEGINS: Final = tuple(f"{one}{other}" for one in "bdfg" for other in "aeiou")
_GOES_ON: Final = tuple(f"{one}{other}" for one in "klmnprst" for other in "aeiou")
TOKENS: Final = ("<unk>", "<s>", "</s>", *(f"▁{piece}" for piece in _BEGINS), *_GOES_ON, "<<ST_0>>")


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text that such a model has written."""
    pieces = [word[at : at + 2] for word in text.split() for at in range(0, len(word), 2)]
    return [f"▁{piece}" if piece in _BEGINS else piece for piece in pieces]


def whole_sound(random: np.random.Generator, seconds: float) -> NDArray[np.int16]:
    """Make noise of parts of 50 to 400 ms with other loudnesses. It has the same samples everywhere."""
    parts: list[NDArray[np.int64]] = []
    while sum(map(len, parts)) < round(seconds * 16_000):
        loudness = int(random.integers(4, 4000))
        parts.append(random.integers(-loudness, loudness, int(random.integers(800, 6400))))
    return np.concatenate(parts)[: round(seconds * 16_000)].astype(np.int16)


def make_moonshine_folder(folder: Path, seed: int = 0, *, batch: Batch = BATCH, **changes: object) -> Path:
    """Make a folder with such a model. `changes`: other values of its configuration."""
    parts = {
        "frontend": _frontend(seed, batch),
        "encoder": _encoder(seed + 1, batch),
        "adapter": _adapter(seed + 2, batch),
        "cross_kv": _cross(seed + 3, batch),
        "decoder_kv": _decoder(seed + 4, batch),
    }
    for name, builder in parts.items():
        write_ort(builder, folder / f"{name}.ort")
    config = {
        "encoder_dim": JOINED,
        "decoder_dim": JOINED,
        "depth": DEPTH,
        "nheads": _HEADS,
        "head_dim": _SIZE,
        "vocab_size": len(TOKENS),
        "bos_id": _BEGIN,
        "eos_id": _END,
        "frame_len": 80,
        "total_lookahead": DEPTH * _REACH[1],
        "d_model_frontend": _FIRST,
        "c1": _SECOND,
        "c2": JOINED,
    }
    (folder / "streaming_config.json").write_text(json.dumps({**config, **changes}, indent=2), encoding="utf-8")
    (folder / "tokenizer.bin").write_bytes(b"".join(table_entry(token.encode()) for token in TOKENS))
    return folder


def write_ort(builder: GraphBuilder, path: Path) -> None:
    """Write a graph in the format of onnxruntime."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "graph.onnx"
        builder.save(source, {})
        convert_to_ort(source, path)


def convert_to_ort(source: Path, path: Path) -> None:
    """Write an ONNX file in the format of onnxruntime, as its converter does, with standard operators alone."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def table_entry(token: bytes) -> bytes:
    """Return a token as the table of the tokens has it."""
    length = [len(token)] if len(token) < _LONG else [len(token) % _LONG + _LONG, len(token) // _LONG]
    return bytes([*length, *token])


def _frontend(seed: int, batch: Batch) -> GraphBuilder:
    builder, each = GraphBuilder(seed), CHUNK // FEATURE
    states = (
        State("sample_buffer", (1, KEPT_SAMPLES), 0),
        State("sample_len", (1,), 0, grows=1),
        State("conv1_buffer", (1, _FIRST, 4), 0),
        State("conv2_buffer", (1, _SECOND, 4), 0),
        State("frame_count", (1,), 0, grows=CHUNK // 80),
    )
    audio = builder.input("audio_chunk", (batch, "samples"))
    rows = builder.node("Reshape", audio, builder.numbers(0, each, FEATURE))
    # Samples are multiples of 2 ** -15, so this sum is exact, too.
    summed = builder.node("MatMul", rows, builder.constant(builder.signs(FEATURE, HIDDEN)))
    hidden = builder.whole(summed, 8.0, 16.0)
    results, memory = add_states(builder, pooled(builder, hidden), states, batch)
    builder.output(add_frames(builder, hidden, memory), "features", (batch, "features", JOINED))
    for result, state in zip(results, states, strict=True):
        builder.output(result, f"{state.name}_out", state.port(batch), state.type)
    return builder


def _encoder(seed: int, batch: Batch) -> GraphBuilder:
    builder, (left, right) = GraphBuilder(seed), _REACH
    frames = builder.input("features", (batch, "frames", JOINED))
    value = builder.node("Transpose", frames, perm=[0, 2, 1])
    for _ in range(DEPTH):
        weights = builder.constant(builder.signs(JOINED, JOINED, left + 1 + right))
        summed = builder.node("Conv", value, weights, kernel_shape=[left + 1 + right], pads=[left, right])
        value = builder.whole(builder.node("Add", builder.whole(summed, 1 / 32, 16.0), value), 1 / 2, 8.0)
    builder.output(builder.node("Transpose", value, perm=[0, 2, 1]), "encoded", (batch, "frames", JOINED))
    return builder


def _adapter(seed: int, batch: Batch) -> GraphBuilder:
    builder = GraphBuilder(seed)
    frames = builder.input("encoded", (batch, "frames", JOINED))
    offset = builder.input("pos_offset", (batch,), TensorProto.INT64)
    places = builder.node("Add", builder.node("Unsqueeze", offset, builder.numbers(1)), builder.count(frames, 1))
    table = builder.constant(2 * builder.signs(_PLACES, JOINED))
    placed = builder.node("Add", frames, builder.node("Gather", table, places))
    memory = builder.node("MatMul", placed, builder.constant(builder.signs(JOINED, JOINED)))
    builder.output(builder.whole(memory, 1 / 4, 8.0), "memory", (batch, "frames", JOINED))
    return builder


def _cross(seed: int, batch: Batch) -> GraphBuilder:
    builder = GraphBuilder(seed)
    memory = builder.input("memory", (batch, "frames", JOINED))
    for name in ("k_cross", "v_cross"):
        layers = [_by_head(builder, _product(builder, memory)) for _ in range(DEPTH)]
        builder.output(builder.stacked(layers), name, (DEPTH, batch, _HEADS, "frames", _SIZE))
    return builder


def _decoder(seed: int, batch: Batch) -> GraphBuilder:
    builder = GraphBuilder(seed)
    token = builder.input("token", (batch, "tokens"), TensorProto.INT64)
    self_keys, self_values, cross_keys, cross_values = (
        builder.input(name, (DEPTH, batch, _HEADS, length, _SIZE))
        for name, length in (
            ("k_self", "past"),
            ("v_self", "past"),
            ("out_k_cross", "frames"),
            ("out_v_cross", "frames"),
        )
    )
    before = builder.node("Gather", builder.node("Shape", self_keys), builder.number(3))
    places = builder.node("Add", builder.count(token, 1), before)  # [tokens]
    seen = _column(builder, places)
    rows = builder.node("Gather", builder.constant(3 * builder.signs(len(TOKENS), JOINED)), token)
    order = builder.node("Gather", builder.constant(2 * builder.signs(_PLACES, JOINED)), places)
    rows = builder.node("Add", rows, order)
    caches: tuple[list[str], list[str]] = ([], [])
    for layer in range(DEPTH):
        at = builder.number(layer)
        query = _by_head(builder, _product(builder, rows))
        both = []
        for cache, past in zip(caches, (self_keys, self_values), strict=True):
            new = _by_head(builder, _product(builder, rows))
            own = builder.node("Concat", builder.node("Gather", past, at, axis=0), new, axis=2)
            cache.append(own)
            both.append(own)
        later = builder.node("LessOrEqual", builder.count(both[0], 2), seen)  # a token sees itself and those before
        rows = builder.node("Add", rows, _attended(builder, query, both[0], both[1], later))
        frames = builder.count(cross_keys, 3)
        first = builder.node("Mul", seen, builder.number(_SPAN))
        after = builder.node("Add", first, builder.number(_WIDTH))
        near = builder.node("And", builder.node("GreaterOrEqual", frames, first), builder.node("Less", frames, after))
        keys, values = (builder.node("Gather", part, at, axis=0) for part in (cross_keys, cross_values))
        query = _by_head(builder, _product(builder, rows))
        rows = builder.node("Add", rows, _attended(builder, query, keys, values, near))
    scores = builder.node("MatMul", _rest(builder, rows), builder.constant(builder.signs(JOINED, len(TOKENS))))
    offsets = -builder.random.permutation(len(TOKENS)).astype(np.float32) / 64  # no two tokens are equally likely
    offsets[[0, _BEGIN, _END, len(TOKENS) - 1]] = _NEVER
    scores = builder.node("Add", scores, builder.constant(offsets))
    # The text ends where no frames are left.
    total = builder.node("Gather", builder.node("Shape", cross_keys), builder.number(3))
    over = builder.node(
        "Less", total, builder.node("Mul", builder.node("Add", seen, builder.number(1)), builder.number(_SPAN))
    )
    end = np.zeros(len(TOKENS), np.float32)
    end[_END] = -2 * _NEVER
    ends = builder.node("Mul", builder.node("Cast", over, to=TensorProto.FLOAT), builder.constant(end))
    builder.output(builder.node("Add", scores, ends), "logits", (batch, "tokens", len(TOKENS)))
    for name, cache in zip(("out_k_self", "out_v_self"), caches, strict=True):
        builder.output(builder.stacked(cache), name, (DEPTH, batch, _HEADS, "sofar", _SIZE))
    return builder


def _attended(builder: GraphBuilder, query: str, keys: str, values: str, seen: str) -> str:
    """Add attention [batch, heads, tokens, all] without an exponential function, to what is `seen` [tokens, all]."""
    scores = builder.node("MatMul", query, builder.node("Transpose", keys, perm=[0, 1, 3, 2]))
    weights = builder.node("Add", builder.whole(scores, 1 / 16, 3.0), builder.constant(4))  # 1 to 7
    weights = builder.node("Mul", weights, builder.node("Cast", seen, to=TensorProto.FLOAT))
    summed = builder.node("MatMul", weights, values)
    merged = builder.node(
        "Reshape", builder.node("Transpose", summed, perm=[0, 2, 1, 3]), builder.numbers(0, 0, JOINED)
    )
    return _rest(builder, _product(builder, _rest(builder, merged)))


def _rest(builder: GraphBuilder, value: str) -> str:
    """Add the rest of a division by 16, from -8 to 7: it depends on every part of a sum."""
    moved = builder.node("Add", value, builder.constant(8))
    turns = builder.node("Floor", builder.node("Mul", moved, builder.constant(1 / 16)))
    rest = builder.node("Sub", moved, builder.node("Mul", turns, builder.constant(16)))
    return builder.node("Sub", rest, builder.constant(8))


def _product(builder: GraphBuilder, rows: str) -> str:
    return _rest(builder, builder.node("MatMul", rows, builder.constant(builder.signs(JOINED, JOINED))))


def _by_head(builder: GraphBuilder, rows: str) -> str:
    split = builder.node("Reshape", rows, builder.numbers(0, 0, _HEADS, _SIZE))
    return builder.node("Transpose", split, perm=[0, 2, 1, 3])


def _column(builder: GraphBuilder, value: str) -> str:
    return builder.node("Unsqueeze", value, builder.numbers(1))
