"""Makes folders with a small Zipformer-2 that computes exactly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streamer.testing.graphs.exact_icefall import TOKENS, Batch, ExactEncoder, State, listed, make_ctc, make_transducer
from streamer.testing.graphs.graph_builder import BATCH

_LAYERS, _DIMS, _HEADS, _QUERY, _VALUE, _KERNELS, _LEFT = (1, 2), (8, 12), (2, 2), (3, 3), (2, 2), (5, 3), (16, 8)
_EMBEDDED: Final = (128, 3, 19)


def make_ctc_folder(
    folder: Path, seed: int = 0, *, chunk: int = 32, batch: Batch = BATCH, tokens: Sequence[str] = TOKENS
) -> Path:
    """Make a folder with a CTC model. `tokens`: the same number of other tokens, such as another script."""
    return make_ctc(folder, _encoder(chunk), seed, batch, tokens)


def make_transducer_folder(
    folder: Path, seed: int = 0, *, chunk: int = 32, batch: Batch = BATCH, exact: bool = True
) -> Path:
    """Make a folder with a transducer. `exact` is that of `make_transducer`."""
    return make_transducer(folder, _encoder(chunk), seed, batch, exact=exact)


def _encoder(chunk: int) -> ExactEncoder:
    metadata = {
        "num_encoder_layers": listed(_LAYERS),
        "encoder_dims": listed(_DIMS),
        "query_head_dims": listed(_QUERY),
        "value_head_dims": listed(_VALUE),
        "num_heads": listed(_HEADS),
        "cnn_module_kernels": listed(_KERNELS),
        "left_context_len": listed(_LEFT),
    }
    return ExactEncoder("zipformer2", chunk, chunk + 13, tuple(_states(chunk)), metadata)


def _states(chunk: int) -> list[State]:
    states = []
    layer = 0
    for stack, count in enumerate(_LAYERS):
        for _ in range(count):
            left, dim, values = _LEFT[stack], _DIMS[stack], _VALUE[stack] * _HEADS[stack]
            states += [
                State(f"cached_key_{layer}", (left, 1, _QUERY[stack] * _HEADS[stack]), 1),
                State(f"cached_nonlin_attn_{layer}", (1, 1, left, 3 * dim // 4), 1),
                State(f"cached_val1_{layer}", (left, 1, values), 1),
                State(f"cached_val2_{layer}", (left, 1, values), 1),
                State(f"cached_conv1_{layer}", (1, dim, _KERNELS[stack] // 2), 0),
                State(f"cached_conv2_{layer}", (1, dim, _KERNELS[stack] // 2), 0),
            ]
            layer += 1
    return [*states, State("embed_states", (1, *_EMBEDDED), 0), State("processed_lens", (1,), 0, grows=chunk // 2)]
