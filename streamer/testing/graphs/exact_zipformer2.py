"""Makes folders with a small Zipformer-2 that hears nothing sensible, but computes in whole numbers.

All weights are -1, 0 or 1 and everything is rounded, so any batch, processor and version of onnxruntime gives the same
bits. Every frame depends on all states and on the age of the stream: a mixed-up slot shows at once. Silence gives no
token, so segments end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from onnx import TensorProto

from streamer.testing.graphs.graph_builder import BATCH, GraphBuilder

TOKENS: Final = ("<blk>", "<sos/eos>", "<unk>", *(f"▁{letter}" for letter in "ABCDEFG"), *"HIJKLMNOPQRST", "'")
MELS, HIDDEN, JOINED, CONTEXT = 80, 12, 16, 2
_LAYERS, _DIMS, _HEADS, _QUERY, _VALUE, _KERNELS, _LEFT = (1, 2), (8, 12), (2, 2), (3, 3), (2, 2), (5, 3), (16, 8)
_EMBEDDED: Final = (128, 3, 19)
_SOFTNESS: Final = 0.25  # what the scores of a model with any weights are multiplied with
_QUIET: Final = -40  # four times the logarithm of a mean energy; below it is silence


def make_ctc_folder(
    folder: Path, seed: int = 0, *, chunk: int = 32, batch: int | str = BATCH, tokens: Sequence[str] = TOKENS
) -> Path:
    """A folder with a model with CTC. `tokens`: as many others, to write in another script."""
    builder = GraphBuilder(seed)
    frames, states = _encoder(builder, chunk, batch)
    scores = builder.node("MatMul", frames, builder.constant(builder.signs(JOINED, len(TOKENS))))
    scores = builder.node("Add", scores, builder.constant(_offsets(builder, 30)))
    found = builder.node("LogSoftmax", scores, axis=-1)
    _save(builder, folder / "model.onnx", ("log_probs", found, len(TOKENS)), states, chunk, batch)
    _write_tokens(folder, tokens)
    return folder


def make_transducer_folder(
    folder: Path, seed: int = 0, *, chunk: int = 32, batch: int | str = BATCH, exact: bool = True
) -> Path:
    """A folder with a transducer: encoder, decoder and joiner.

    Without `exact`, decoder and joiner have any weights. Then no two sequences of tokens are equally likely, as many
    are in whole numbers, and several are nearly as likely as the best. The folder has the pieces of the tokens, too.
    """
    builder = GraphBuilder(seed)
    frames, states = _encoder(builder, chunk, batch)
    _save(builder, folder / "encoder-epoch-1-avg-1.onnx", ("encoder_out", frames, JOINED), states, chunk, batch)
    predictor = GraphBuilder(seed + 1)
    tokens = predictor.input("y", (batch, CONTEXT), TensorProto.INT64)
    nothing = predictor.constant(0, np.int64)
    known = predictor.node("Cast", predictor.node("GreaterOrEqual", tokens, nothing), to=TensorProto.FLOAT)
    table = predictor.constant(3 * _weights(predictor, len(TOKENS), JOINED, exact=exact))
    rows = predictor.node("Gather", table, predictor.node("Max", tokens, nothing))
    weighed = predictor.node("Mul", rows, predictor.node("Unsqueeze", known, predictor.constant([2], np.int64)))
    places = predictor.constant(np.array([[[1.0], [2.0]]]))  # the order of the context matters
    predicted = predictor.node("Mul", weighed, places)
    predicted = predictor.node("ReduceSum", predicted, predictor.constant([1], np.int64), keepdims=0)
    predictor.output(predicted, "decoder_out", (batch, JOINED))
    if not exact:
        _write_pieces(folder, predictor)
    predictor.save(folder / "decoder-epoch-1-avg-1.onnx", {"context_size": CONTEXT, "vocab_size": len(TOKENS)})
    joiner = GraphBuilder(seed + 2)
    ports = [joiner.input(name, (batch, JOINED)) for name in ("encoder_out", "decoder_out")]
    joined = joiner.node("Clip", joiner.node("Add", *ports), joiner.constant(-8), joiner.constant(8))
    scores = joiner.node("MatMul", joined, joiner.constant(_weights(joiner, JOINED, len(TOKENS), exact=exact)))
    scores = joiner.node("Add", scores, joiner.constant(_offsets(joiner, 20)))
    if not exact:
        scores = joiner.node("Mul", scores, joiner.constant(_SOFTNESS))
    joiner.output(scores, "logit", (batch, len(TOKENS)))
    joiner.save(folder / "joiner-epoch-1-avg-1.onnx", {"joiner_dim": JOINED})
    _write_tokens(folder)
    return folder


def random_phrases(random: np.random.Generator, number: int) -> list[str]:
    """Some phrases of one or two words, which these models have tokens for."""
    return [" ".join(_word(random) for _ in range(random.integers(1, 3))) for _ in range(number)]


def _word(random: np.random.Generator) -> str:
    return "".join([random.choice(list("ABCDEFG")), *random.choice(list("HIJKLMNOPQRST"), random.integers(0, 3))])


def _weights(builder: GraphBuilder, *shape: int, exact: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    if exact:
        return builder.signs(*shape)
    return builder.random.normal(0, 0.8, shape).astype(np.float32)


def _encoder(builder: GraphBuilder, chunk: int, batch: int | str) -> tuple[str, list[str]]:
    """The frames of the encoder, and the new values of its states."""
    window = chunk + 13
    features = builder.input("x", (batch, window, MELS))
    steps = builder.whole(features, 4.0, 96.0)
    mean = builder.node(
        "ReduceSum",
        builder.node("Slice", steps, *(builder.constant([at], np.int64) for at in (0, 64, 2))),
        builder.constant([2], np.int64),
    )
    mean = builder.whole(mean, 1 / 64, 96.0)
    loud = builder.node("Clip", builder.node("Sub", mean, builder.constant(_QUIET)), *map(builder.constant, (0, 1)))
    centred = builder.node("Mul", builder.node("Sub", steps, mean), loud)
    early, late = (
        builder.node("Slice", centred, *(builder.constant([at], np.int64) for at in (begin, begin + chunk, 1)))
        for begin in (0, window - chunk)
    )
    both = builder.node("Add", early, late)
    rows = builder.node("Reshape", both, builder.constant([0, chunk // 4, 4 * MELS], np.int64))
    weights = builder.constant(builder.signs(4 * MELS, HIDDEN))
    hidden = builder.whole(builder.node("MatMul", rows, weights), 1 / 32, 16.0)
    pooled = builder.whole(builder.node("ReduceSum", hidden, builder.constant([1], np.int64), keepdims=0), 1 / 4, 16.0)
    states, memory = _states(builder, pooled, batch, chunk)
    sounding = builder.node("Abs", hidden)
    sounding = builder.node("Clip", sounding, *map(builder.constant, (0, 1)))
    turned = builder.node("Mul", memory, builder.constant(builder.signs(HIDDEN)))
    hidden = builder.node("Add", hidden, builder.node("Mul", turned, sounding))
    frames = builder.node("MatMul", hidden, builder.constant(builder.signs(HIDDEN, JOINED)))
    return builder.whole(frames, 1 / 4, 8.0), states


def _shapes() -> list[tuple[str, tuple[int, ...], int]]:
    """The states: name, shape with 1 for the streams, axis of the streams."""
    found = []
    layer = 0
    for stack, count in enumerate(_LAYERS):
        for _ in range(count):
            left, dim, values = _LEFT[stack], _DIMS[stack], _VALUE[stack] * _HEADS[stack]
            found += [
                (f"cached_key_{layer}", (left, 1, _QUERY[stack] * _HEADS[stack]), 1),
                (f"cached_nonlin_attn_{layer}", (1, 1, left, 3 * dim // 4), 1),
                (f"cached_val1_{layer}", (left, 1, values), 1),
                (f"cached_val2_{layer}", (left, 1, values), 1),
                (f"cached_conv1_{layer}", (1, dim, _KERNELS[stack] // 2), 0),
                (f"cached_conv2_{layer}", (1, dim, _KERNELS[stack] // 2), 0),
            ]
            layer += 1
    return [*found, ("embed_states", (1, *_EMBEDDED), 0)]


def _states(builder: GraphBuilder, pooled: str, batch: int | str, chunk: int) -> tuple[list[str], str]:
    """The new values of all states, and what they say together about a stream: a number from 0 to 15."""
    results: list[str] = []
    total = builder.constant(0)
    for number, (name, shape, axis) in enumerate(_shapes()):
        state = builder.input(name, tuple(batch if at == axis else size for at, size in enumerate(shape)))
        found = builder.whole(
            builder.node("MatMul", pooled, builder.constant(builder.signs(HIDDEN, shape[-1]))), 1 / 2, 16.0
        )
        between = len(shape) - 2 - axis
        if between:
            found = builder.node("Unsqueeze", found, builder.constant(list(range(1, 1 + between)), np.int64))
        added = builder.node("Mul", found, builder.constant(builder.signs(*shape)))
        half = builder.node("Round", builder.node("Mul", state, builder.constant(0.5)))
        results.append(builder.node("Add", half, added))
        others = [at for at in range(len(shape)) if at != axis]
        summed = builder.node("ReduceSum", state, builder.constant(others, np.int64), keepdims=0)
        weighed = builder.node("Mul", summed, builder.constant(1 + number % 3))
        total = builder.node("Add", total, weighed)
    age = builder.input("processed_lens", (batch,), TensorProto.INT64)
    results.append(builder.node("Add", age, builder.constant(chunk // 2, np.int64)))
    aged = builder.node("Mul", builder.node("Cast", age, to=TensorProto.FLOAT), builder.constant(1 / 16))
    total = builder.node("Add", total, aged)
    turns = builder.node("Floor", builder.node("Mul", total, builder.constant(1 / 16)))
    rest = builder.node("Sub", total, builder.node("Mul", turns, builder.constant(16)))
    return results, builder.node("Unsqueeze", rest, builder.constant([1, 2], np.int64))


def _offsets(builder: GraphBuilder, blank: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Small differences between the tokens, so that no two are equally likely; the blank is likelier."""
    found = -builder.random.permutation(len(TOKENS)).astype(np.float32) / 64
    found[0] += blank
    return found


def _save(
    builder: GraphBuilder, path: Path, first: tuple[str, str, int], states: list[str], chunk: int, batch: int | str
) -> None:
    """Write the graph with its first output, and the states after it."""
    name, value, units = first
    builder.output(value, name, (batch, chunk // 4, units))
    *others, age = states
    for state, (title, shape, axis) in zip(others, _shapes(), strict=True):
        builder.output(state, f"new_{title}", tuple(batch if at == axis else size for at, size in enumerate(shape)))
    builder.output(age, "new_processed_lens", (batch,), TensorProto.INT64)
    metadata = {
        "model_type": "zipformer2",
        "T": chunk + 13,
        "decode_chunk_len": chunk,
        "num_encoder_layers": _listed(_LAYERS),
        "encoder_dims": _listed(_DIMS),
        "query_head_dims": _listed(_QUERY),
        "value_head_dims": _listed(_VALUE),
        "num_heads": _listed(_HEADS),
        "cnn_module_kernels": _listed(_KERNELS),
        "left_context_len": _listed(_LEFT),
    }
    builder.save(path, metadata)


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _write_tokens(folder: Path, tokens: Sequence[str] = TOKENS) -> None:
    lines = (f"{token} {number}\n" for number, token in enumerate(tokens))
    (folder / "tokens.txt").write_text("".join(lines), encoding="utf-8")


def _write_pieces(folder: Path, builder: GraphBuilder) -> None:
    """Write the scores of the tokens, by which sherpa-onnx divides hotwords."""
    lines = (f"{token}\t{builder.random.uniform(-8, -2):.3f}\n" for token in TOKENS[3:])
    (folder / "bpe.vocab").write_text("".join(lines), encoding="utf-8")
