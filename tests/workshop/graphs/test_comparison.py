"""The recogniser finds what sherpa-onnx finds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from streamer.engine.acoustics.streaming_model import ModelState
from streamer.engine.public.graph_model import GraphModel
from streamer.engine.search.search import Hotword
from workshop.graphs.comparison import compare, compare_windows
from workshop.graphs.exact_icefall import (
    make_conformer_folder,
    make_ctc_folder,
    make_lstm_folder,
    make_transducer_folder,
    make_whole_icefall_ctc_folder,
    make_whole_icefall_folder,
    make_zipformer_folder,
)
from workshop.graphs.exact_nemo import (
    SIZES,
    make_nemo_ctc_folder,
    make_nemo_folder,
    make_nemotron_folder,
    make_t_one_folder,
    make_whole_ctc_folder,
    make_whole_folder,
)

MODELS = [
    make_ctc_folder,
    make_transducer_folder,
    make_zipformer_folder,
    make_lstm_folder,
    make_conformer_folder,
    make_t_one_folder,
    make_nemo_ctc_folder,
    partial(make_nemo_folder, chunk=8),
    make_nemotron_folder,
]


@pytest.mark.parametrize("make", MODELS)
def test_the_same_tokens_in_the_same_frames(make: Callable[[Path], Path], tmp_path: Path) -> None:
    """24 streams of different ages in 12 slots: each segment is as a new stream of sherpa-onnx has it."""
    seconds = 2.5 if make is make_lstm_folder else 4  # its steps are short, so it computes eight times as many
    found = compare(make(tmp_path), 24, seconds=seconds)
    assert found.different == []
    assert found.segments > 40
    assert found.tokens > 200


@pytest.mark.parametrize("make", [make_transducer_folder, partial(make_nemo_folder, chunk=8), make_nemotron_folder])
def test_the_beam_with_hotwords(make: Callable[..., Path], tmp_path: Path) -> None:
    """The same with the beam search and hotwords for half of the streams, where no two scores are nearly equal."""
    folder = make(tmp_path, seed=1, exact=False)
    hotwords = [Hotword(phrase, weight) for phrase, weight in (("AH B", 1.0), ("EO", 2.0), ("EO AT", 1.0), ("F", 0.5))]
    found = compare(folder, 24, seconds=4, search="beam", hotwords=hotwords)
    assert len(found.different) == found.close
    assert found.segments > 30
    assert found.tokens > 300
    assert found.biased > 5


@pytest.mark.parametrize(
    "make",
    [
        make_whole_ctc_folder,
        partial(make_whole_ctc_folder, normalised=True),
        make_whole_folder,
        partial(make_whole_folder, normalised=True, sizes=SIZES),
        partial(make_whole_folder, durations=5),
        make_whole_icefall_ctc_folder,
        make_whole_icefall_folder,
    ],
)
def test_each_window_is_a_whole_utterance(make: Callable[[Path], Path], tmp_path: Path) -> None:
    """Windows of streams of different ages, in one batch, have what sherpa-onnx finds in each of them alone."""
    found = compare_windows(make(tmp_path), 12, seconds=4)
    assert found.different == []
    assert found.segments > 40
    assert found.tokens > 200


@pytest.mark.parametrize(
    ("make", "state", "kept_number"),
    [
        (make_transducer_folder, "processed_lens", 16),
        (make_zipformer_folder, "cached_len_1", 16),
        (make_conformer_folder, "steps", 1),
        (make_t_one_folder, "state", 1),
    ],
)
def test_a_fault_is_noticed(
    make: Callable[[Path], Path], state: str, kept_number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot that keeps a single number of the stream before gives other tokens."""
    reset = GraphModel.reset

    def forgetful(self: GraphModel, states: ModelState, slots: list[int]) -> None:
        kept = states[state].copy()
        reset(self, states, slots)
        states[state][:] = np.where(kept > 0, kept_number, states[state]).astype(kept.dtype)

    monkeypatch.setattr(GraphModel, "reset", forgetful)
    assert compare(make(tmp_path), 12, seconds=2).different
