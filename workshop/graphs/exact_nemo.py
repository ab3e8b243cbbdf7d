"""Makes folders with a small FastConformer of NeMo or T-one. They recognise nothing sensible, but compute exactly.

The frames of the FastConformer depend on all caches, like those of icefall's models, and on the inputs for the length
and the language.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from onnx import TensorProto

from workshop.graphs import exact_icefall
from workshop.graphs.exact_icefall import (
    BATCH,
    HIDDEN,
    JOINED,
    SOFTNESS,
    Batch,
    GraphBuilder,
    State,
    add_centred,
    add_ctc,
    add_frames,
    add_hidden,
    add_rest,
    add_rows,
    add_states,
    offsets,
    pooled,
    weights,
    write_pieces,
    write_tokens,
)

TOKENS: Final = ("<unk>", *exact_icefall.TOKENS[3:], "<de-DE>", "<blk>")
LANGUAGES: Final = {"auto": 5, "de-DE": 1, "en-GB": 2, "en-US": 3, "ja-JP": 4}
BLANK: Final = len(TOKENS) - 1
CHUNKS: Final = (8, 16, 56, 104)
"""The feature frames of a step, in published models."""
_LAYERS, _LEFT, _WIDTH, _KERNEL, _SUBSAMPLING = 3, 12, 8, 4, 8
_BEFORE: Final = 9  # feature frames that a window shares with the one before it
_PREDICTOR_LAYERS: Final = 2
_QUIET: Final = -60  # for features whose filters are weighted by their width


def make_nemo_ctc_folder(folder: Path, seed: int = 0, *, chunk: int = 16, batch: Batch = BATCH) -> Path:
    """Make a folder with a CTC model."""
    builder = GraphBuilder(seed)
    frames, states = _encoder(builder, chunk, 80, batch, {})
    builder.output(add_ctc(builder, frames, BLANK, 12), "logprobs", (batch, "frames", len(TOKENS)))
    _save(builder, folder / "model.onnx", states, chunk, batch)
    write_tokens(folder, TOKENS)
    return folder


def make_nemo_folder(
    folder: Path,
    seed: int = 0,
    *,
    chunk: int = 16,
    batch: Batch = BATCH,
    languages: Mapping[str, int] | None = None,
    exact: bool = True,
) -> Path:
    """Make a folder with a transducer. With `languages` it knows these, and has more features, as Nemotron has.

    A state of its predictor is for exactly one stream, as in published files. `exact` is that of `make_transducer`.
    """
    builder = GraphBuilder(seed)
    frames, states = _encoder(builder, chunk, 128 if languages else 80, batch, languages or {})
    builder.output(builder.node("Transpose", frames, perm=[0, 2, 1]), "outputs", (batch, JOINED, "frames"))
    _save(builder, folder / "encoder.onnx", states, chunk, batch, languages or {})
    _make_predictor(folder / "decoder.onnx", seed + 1, exact=exact)
    _make_joiner(folder / "joiner.onnx", seed + 2, exact=exact)
    write_tokens(folder, TOKENS)
    return folder


def make_nemotron_folder(folder: Path, seed: int = 0, *, chunk: int = 56, exact: bool = True) -> Path:
    """Make a folder with a transducer of several languages."""
    return make_nemo_folder(folder, seed, chunk=chunk, languages=LANGUAGES, exact=exact)


def with_any_step(make: Callable[..., Path], **options: bool) -> Callable[[Path, int], Path]:
    """Return a function that makes the same folders with steps of 80 ms to 1040 ms in turn."""
    return lambda folder, seed: make(folder, seed, chunk=CHUNKS[seed % len(CHUNKS)], **options)


def _states(chunk: int) -> tuple[State, ...]:
    return (
        State("cache_last_channel", (1, _LAYERS, _LEFT, _WIDTH), 0),
        State("cache_last_time", (1, _LAYERS, _WIDTH, _KERNEL), 0),
        State("cache_last_channel_len", (1,), 0, grows=chunk // _SUBSAMPLING),
    )


def _encoder(
    builder: GraphBuilder, chunk: int, mels: int, batch: Batch, languages: Mapping[str, int]
) -> tuple[str, list[str]]:
    """Add an encoder. Returns its frames, and the new values of its states."""
    window = chunk + _BEFORE
    features = builder.input("audio_signal", (batch, mels, "time"))
    upright = builder.node("Transpose", features, perm=[0, 2, 1])
    hidden = add_hidden(builder, upright, window, chunk, _SUBSAMPLING, mels, _QUIET)
    length = builder.input("length", (batch,), TensorProto.INT64)
    results, memory = add_states(builder, pooled(builder, hidden), _states(chunk), batch)
    results[-1] = builder.node("Min", results[-1], builder.constant(_LEFT, np.int64))
    wrong = builder.node("Sub", length, builder.constant(window, np.int64))  # 0 if the length is right
    extra_inputs = [wrong]
    if languages:
        extra_inputs.append(builder.input("prompt_index", (batch,), TensorProto.INT64))
    for number in extra_inputs:
        number = builder.node("Mul", builder.node("Cast", number, to=TensorProto.FLOAT), builder.constant(2))
        memory = builder.node("Add", memory, builder.node("Unsqueeze", number, builder.constant([1, 2], np.int64)))
    return add_frames(builder, hidden, memory), results


def _save(
    builder: GraphBuilder, path: Path, states: list[str], chunk: int, batch: Batch, languages: Mapping[str, int] = {}
) -> None:
    """Write the graph. Its frames are followed by their number and the caches."""
    builder.output("length", "encoded_lengths", (batch,), TensorProto.INT64)
    for result, state in zip(states, _states(chunk), strict=True):
        builder.output(result, f"{state.name}_next", state.port(batch), state.type)
    metadata: dict[str, object] = {
        "model_type": "EncDecHybridRNNTCTCBPEModel",
        "vocab_size": BLANK,
        "window_size": chunk + _BEFORE,
        "chunk_shift": chunk,
        "subsampling_factor": _SUBSAMPLING,
        "normalize_type": "",
        "pred_rnn_layers": _PREDICTOR_LAYERS,
        "pred_hidden": HIDDEN,
    }
    for state in _states(chunk)[:2]:
        metadata |= {f"{state.name}_dim{axis}": size for axis, size in enumerate(state.shape) if axis}
    if languages:
        metadata |= {"prompt_dictionary": json.dumps(languages), "auto_prompt_id": languages["auto"]}
    builder.save(path, metadata)


# Models that hear whole utterances, such as Parakeet. Each frame depends on its neighbours and on the whole window.

_NORMAL: Final = ("per_feature", 1.0, 1.0)  # how features are made whole if they have the mean 0 and the deviation 1
_USUAL: Final = ("", 4.0, 96.0)
SIZES: Final = (64, 24, 16)  # the windows of a model that says which ones it was made for, in feature frames
_END: Final = 1 << 40


def make_whole_ctc_folder(folder: Path, seed: int = 0, *, normalised: bool = False) -> Path:
    """Make a folder with a CTC model for whole utterances."""
    builder = GraphBuilder(seed)
    frames = _whole_encoder(builder, 80, normalised)
    builder.output(add_ctc(builder, frames, BLANK, 12), "logprobs", (BATCH, "frames", len(TOKENS)))
    builder.save(folder / "model.onnx", _whole_metadata("EncDecCTCModelBPE", normalised))
    write_tokens(folder, TOKENS)
    return folder


def make_whole_folder(
    folder: Path,
    seed: int = 0,
    *,
    normalised: bool = False,
    durations: int = 0,
    sizes: tuple[int, int, int] | None = None,
    exact: bool = True,
) -> Path:
    """Make a folder with a transducer for whole utterances. With `sizes`, it was exported for these windows.

    `durations`: the number of durations that its joiner knows, if any. `exact` is that of `make_transducer`.
    """
    builder = GraphBuilder(seed)
    frames = _whole_encoder(builder, 128, normalised)
    builder.output(builder.node("Transpose", frames, perm=[0, 2, 1]), "outputs", (BATCH, JOINED, "frames"))
    count = builder.node("Div", "length", builder.constant(_SUBSAMPLING, np.int64))
    builder.output(count, "encoded_lengths", (BATCH,), TensorProto.INT64)
    metadata = _whole_metadata("EncDecRNNTBPEModel", normalised)
    if durations:
        metadata["url"] = "https://example.org/tdt"  # by this sherpa-onnx knows such a model
    if sizes:
        names = ("left", "chunk", "right")
        metadata |= {f"{name}_feature_frames": size for name, size in zip(names, sizes, strict=True)}
    builder.save(folder / "encoder.onnx", metadata)
    _make_predictor(folder / "decoder.onnx", seed + 1, exact=exact)
    _make_joiner(folder / "joiner.onnx", seed + 2, exact=exact, durations=durations)
    write_tokens(folder, TOKENS)
    return folder


def _whole_encoder(builder: GraphBuilder, mels: int, normalised: bool) -> str:
    """Add an encoder. Returns its frames. What comes after the length of a window changes nothing."""
    _, scale, most = _NORMAL if normalised else _USUAL
    features = builder.input("audio_signal", (BATCH, mels, "time"))
    length = builder.input("length", (BATCH,), TensorProto.INT64)
    upright = builder.node("Transpose", features, perm=[0, 2, 1])
    whole = add_centred(builder, upright, -96 if normalised else _QUIET, scale, most)
    size = builder.node("Gather", builder.node("Shape", upright), builder.constant(1, np.int64))
    places = builder.node("Range", builder.constant(0, np.int64), size, builder.constant(1, np.int64))
    within = builder.node("Less", places, builder.node("Unsqueeze", length, builder.constant([1], np.int64)))
    mask = builder.node("Unsqueeze", within, builder.constant([2], np.int64))
    whole = builder.node("Mul", whole, builder.node("Cast", mask, to=TensorProto.FLOAT))
    hidden = add_rows(builder, whole, _SUBSAMPLING, mels)
    padded = builder.node("Pad", hidden, builder.constant([0, 1, 0, 0, 1, 0], np.int64))
    before, after = (
        builder.node("Slice", padded, *(builder.constant([at], np.int64) for at in (begin, end, 1)))
        for begin, end in ((0, -2), (2, _END))
    )
    weighed = builder.node("Mul", hidden, builder.constant(builder.signs(HIDDEN)))
    memory = add_rest(builder, builder.node("ReduceSum", weighed, builder.constant([1, 2], np.int64), keepdims=0))
    return add_frames(builder, builder.node("Add", hidden, builder.node("Sub", before, after)), memory)


def _whole_metadata(kind: str, normalised: bool) -> dict[str, object]:
    return {
        "model_type": kind,
        "vocab_size": BLANK,
        "subsampling_factor": _SUBSAMPLING,
        "normalize_type": (_NORMAL if normalised else _USUAL)[0],
        "pred_rnn_layers": _PREDICTOR_LAYERS,
        "pred_hidden": HIDDEN,
        "feat_dim": 128,
    }


def _make_predictor(path: Path, seed: int, *, exact: bool) -> None:
    builder = GraphBuilder(seed)
    token = builder.input("targets", (BATCH, 1), TensorProto.INT32)
    count = builder.input("target_length", (BATCH,), TensorProto.INT32)
    states = [
        builder.input("states.1", (_PREDICTOR_LAYERS, BATCH, HIDDEN)),
        builder.input("onnx::LSTM_3", (_PREDICTOR_LAYERS, 1, HIDDEN)),
    ]
    table = builder.constant(3 * weights(builder, len(TOKENS), HIDDEN, exact=exact))
    row = builder.node("Squeeze", builder.node("Gather", table, token), builder.constant([1], np.int64))
    read, fresh = row, []
    for state in states:
        turned = builder.node("MatMul", state, builder.constant(weights(builder, HIDDEN, HIDDEN, exact=exact)))
        added = builder.node("Add", builder.node("Mul", turned, builder.constant(0.25)), read)
        fresh.append(_limited(builder, added, 1, exact=exact))
        read = builder.node("ReduceSum", fresh[-1], builder.constant([0], np.int64), keepdims=0)
    result = builder.node("Unsqueeze", _limited(builder, read, 0.5, exact=exact), builder.constant([2], np.int64))
    builder.output(result, "outputs", (BATCH, HIDDEN, 1))
    builder.output(count, "prednet_lengths", (BATCH,), TensorProto.INT32)
    builder.output(fresh[0], "states", (_PREDICTOR_LAYERS, BATCH, HIDDEN))
    builder.output(fresh[1], "74", (_PREDICTOR_LAYERS, 1, HIDDEN))
    if not exact:
        write_pieces(path.parent, builder)
    builder.save(path, {})


def _make_joiner(path: Path, seed: int, *, exact: bool, durations: int = 0) -> None:
    builder = GraphBuilder(seed)
    frames = builder.input("encoder_outputs", (BATCH, JOINED, 1))
    predicted = builder.input("decoder_outputs", (BATCH, HIDDEN, 1))
    rows = [
        builder.node(
            "MatMul",
            builder.node("Transpose", port, perm=[0, 2, 1]),
            builder.constant(weights(builder, size, JOINED, exact=exact)),
        )
        for port, size in ((frames, JOINED), (predicted, HIDDEN))
    ]
    joined = _limited(builder, builder.node("Add", *rows), 0.5, exact=exact)
    scores = builder.node("MatMul", joined, builder.constant(weights(builder, JOINED, len(TOKENS), exact=exact)))
    scores = builder.node("Add", scores, builder.constant(offsets(builder, 30, BLANK)))
    if not exact:
        scores = builder.node("Mul", scores, builder.constant(SOFTNESS))
    if durations:
        longer = builder.node("MatMul", joined, builder.constant(builder.signs(JOINED, durations)))
        longer = builder.node("Add", longer, builder.constant(-np.arange(durations) / 64))
        scores = builder.node("Concat", scores, longer, axis=-1)
    result = builder.node("Unsqueeze", scores, builder.constant([1], np.int64))
    builder.output(result, "outputs", (BATCH, 1, 1, len(TOKENS) + durations))
    builder.save(path, {})


def _limited(builder: GraphBuilder, value: str, scale: float, *, exact: bool) -> str:
    """Add nodes that scale and limit, and round if the model must be exact."""
    if exact:
        return builder.whole(value, scale, 8.0)
    scaled = builder.node("Mul", value, builder.constant(scale))
    return builder.node("Clip", scaled, builder.constant(-8), builder.constant(8))


# Makes folders with a small model in the format of T-one that computes exactly.

T_ONE_TOKENS: Final = (*"абвгдежзиклмнопрстуфхц", " ", "<blk>")
_FRAMES, _SAMPLES = 10, 240  # the frames of a step, and the samples of a frame
_STATE: Final = State("state", (1, 40), 0, half=True)


def make_t_one_folder(folder: Path, seed: int = 0, *, batch: Batch = BATCH) -> Path:
    """Make a folder with such a model."""
    builder = GraphBuilder(seed)
    signal = builder.input("signal", (batch, _FRAMES * _SAMPLES, 1), TensorProto.INT32)
    rows = builder.node("Reshape", signal, builder.constant([0, _FRAMES, _SAMPLES], np.int64))
    steps = builder.whole(builder.node("Cast", rows, to=TensorProto.FLOAT), 1 / 256, 128.0)
    weights = builder.constant(builder.signs(_SAMPLES, HIDDEN))
    hidden = builder.whole(builder.node("MatMul", steps, weights), 1 / 16, 16.0)
    [state], memory = add_states(builder, pooled(builder, hidden), [_STATE], batch)
    scores = add_ctc(builder, add_frames(builder, hidden, memory), len(T_ONE_TOKENS) - 1)
    builder.output(scores, "logprobs", (batch, _FRAMES, len(T_ONE_TOKENS)))
    builder.output(state, "state_next", _STATE.port(batch), _STATE.type)
    metadata = {"model_type": "t-one", "sample_rate": 8000, "frame_length_ms": 300, "state_dim": _STATE.shape[1]}
    builder.save(folder / "model.onnx", metadata)
    write_tokens(folder, T_ONE_TOKENS)
    return folder
