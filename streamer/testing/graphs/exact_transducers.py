"""Makes folders with small transducers of the older families that compute exactly."""

from __future__ import annotations

from pathlib import Path

from streamer.testing.graphs.exact_icefall import Batch, ExactEncoder, State, listed, make_transducer
from streamer.testing.graphs.graph_builder import BATCH


def make_zipformer_folder(folder: Path, seed: int = 0, *, batch: Batch = BATCH, exact: bool = True) -> Path:
    """Make a Zipformer of the first version, with two stacks. `exact` is that of `make_transducer`."""
    layers, dims, attention, kernels, left = (1, 2), (8, 12), (6, 4), (5, 3), (16, 8)
    stacks = list(enumerate(zip(layers, dims, attention, kernels, left, strict=True)))
    states = [State(f"cached_len_{stack}", (count, 1), 1, grows=16) for stack, (count, *_) in stacks]
    states += [State(f"cached_avg_{stack}", (count, 1, dim), 1) for stack, (count, dim, *_) in stacks]
    for name, part in (("key", 1), ("val", 2), ("val2", 2)):
        states += [
            State(f"cached_{name}_{stack}", (count, before, 1, width // part), 2)
            for stack, (count, _, width, _, before) in stacks
        ]
    for name in ("conv1", "conv2"):
        states += [
            State(f"cached_{name}_{stack}", (count, 1, dim, kernel - 1), 1)
            for stack, (count, dim, _, kernel, _) in stacks
        ]
    metadata = {
        "num_encoder_layers": listed(layers),
        "encoder_dims": listed(dims),
        "attention_dims": listed(attention),
        "cnn_module_kernels": listed(kernels),
        "left_context_len": listed(left),
    }
    return make_transducer(folder, ExactEncoder("zipformer", 32, 39, tuple(states), metadata), seed, batch, exact=exact)


def make_lstm_folder(folder: Path, seed: int = 0, *, batch: Batch = BATCH, exact: bool = True) -> Path:
    """Make an LSTM transducer, which gives a frame in every step. `exact` is that of `make_transducer`."""
    metadata = {"num_encoder_layers": 3, "d_model": 8, "rnn_hidden_size": 12}
    states = State("state0", (3, 1, 8), 1), State("state1", (3, 1, 12), 1)
    return make_transducer(folder, ExactEncoder("lstm", 4, 9, states, metadata), seed, batch, exact=exact)


def make_conformer_folder(folder: Path, seed: int = 0, *, batch: Batch = BATCH, exact: bool = True) -> Path:
    """Make a Conformer transducer, which has an input for the age of a stream. `exact` is that of `make_transducer`."""
    metadata = {"num_encoder_layers": 2, "left_context": 8, "encoder_dim": 12, "pad_length": 11, "cnn_module_kernel": 5}
    states = State("cached_attn", (2, 8, 1, 12), 2), State("cached_conv", (2, 4, 1, 12), 2)
    encoder = ExactEncoder("conformer", 64, 75, states, metadata, age="processed_lens")
    return make_transducer(folder, encoder, seed, batch, exact=exact)
