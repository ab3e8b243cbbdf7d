"""How much memory models may hold that are loaded on demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.capacity.loaded_models import (
    OTHER_BYTES,
    PUBLIC_BYTES,
    SERVICE_BYTES,
    check_room,
    expected_memory,
    memory_for_models,
)
from streamer.graphs.model_folder import read_model_folder
from streamer.testing.exact_repository import add_exact_model
from streamer.testing.graphs.exact_zipformer2 import make_transducer_folder
from streamer.triton import TritonError
from streamer.triton.repository import asr_repository


def test_what_models_may_hold(tmp_path: Path) -> None:
    """Four fifths of the memory, without the service itself, unless somebody gives a number."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:       10000000 kB\n")
    assert memory_for_models(None, tmp_path) == 8 * 1024 * 10**6 - SERVICE_BYTES
    assert memory_for_models(1.5, tmp_path) == 1_500_000_000


def test_what_a_model_takes(tmp_path: Path) -> None:
    """A public model takes its used files and the states of its slots, and each instance of a model a fixed amount."""
    folder = make_transducer_folder(tmp_path)
    (folder / "encoder.int8.onnx").write_bytes(bytes(1000))
    (folder / "README.md").write_text("unused")
    public = read_model_folder(folder)
    assert public.transducer is not None
    graphs = (public.encoder, public.transducer.predictor, public.transducer.joiner)
    weights = sum(graph.path.stat().st_size for graph in graphs)
    once = PUBLIC_BYTES + weights + 5 * public.layout.state_bytes
    assert expected_memory(folder, 2, 5) == 2 * once

    exact = add_exact_model(tmp_path / "repository", instances=3)
    size = (exact / "1" / "model.py").stat().st_size
    assert expected_memory(exact, None, None) == 3 * (OTHER_BYTES + size)


def test_an_ensemble() -> None:
    """An ensemble is refused, because its steps would stay loaded."""
    with pytest.raises(TritonError, match="asr_heads is an ensemble: it can only be loaded at the start"):
        expected_memory(asr_repository() / "asr_heads", None, None)


def test_no_room_even_alone() -> None:
    """The sentence has the model, the numbers, and what to change."""
    check_room({"default": 2 * 10**9, "fast": 10**9}, 2 * 10**9)
    with pytest.raises(TritonError, match=r"fast needs about 3\.0 GB, and models may hold 2\.0 GB: give more with"):
        check_room({"default": 10**9, "fast": 3 * 10**9}, 2 * 10**9)
