"""Makes folders with a small model in the format of T-one that computes exactly.

It reads samples at 8 kHz, and its state is one row of numbers in half precision. Whole numbers are exact there, too.
The table of tokens is like that of T-one: letters, a space, and the blank at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from onnx import TensorProto

from streamer.testing.graphs.exact_icefall import (
    HIDDEN,
    Batch,
    State,
    add_ctc,
    add_frames,
    add_states,
    pooled,
    write_tokens,
)
from streamer.testing.graphs.graph_builder import BATCH, GraphBuilder

TOKENS: Final = (*"абвгдежзиклмнопрстуфхц", " ", "<blk>")
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
    scores = add_ctc(builder, add_frames(builder, hidden, memory), len(TOKENS) - 1)
    builder.output(scores, "logprobs", (batch, _FRAMES, len(TOKENS)))
    builder.output(state, "state_next", _STATE.port(batch), _STATE.type)
    metadata = {"model_type": "t-one", "sample_rate": 8000, "frame_length_ms": 300, "state_dim": _STATE.shape[1]}
    builder.save(folder / "model.onnx", metadata)
    write_tokens(folder, TOKENS)
    return folder
