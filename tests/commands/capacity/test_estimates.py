"""How much memory models are expected to take."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.bridge.session.backlog import HIGH_MARK
from streamer.bridge.session.messages import MOST_KEPT as MOST_MESSAGES
from streamer.bridge.session.stream import MOST_KEPT as MOST_AUDIO
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.repository import asr_repository
from streamer.commands.capacity.estimates import OTHER_BYTES, check_room, expected_memory, memory_for_models
from streamer.models.model_folder import read_model_folder
from streamer.models.needs import PUBLIC_BYTES, SERVICE_BYTES, STREAM_BYTES
from streamer.testing.exact_service import add_exact_model
from workshop.graphs.exact_icefall import make_transducer_folder


def test_a_stream_is_not_estimated_too_low() -> None:
    """The estimate of a stream has room for all that the bridge keeps of one."""
    assert MOST_AUDIO + HIGH_MARK + MOST_MESSAGES <= STREAM_BYTES


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


def test_no_room_beside_the_default_model() -> None:
    """The sentence has the model, the numbers, and what to change."""
    check_room({"default": 2 * 10**9, "fast": 10**9}, 3 * 10**9)
    check_room({"default": 10**9, "fast": 10**9, "large": 2 * 10**9}, 3 * 10**9)
    with pytest.raises(
        TritonError,
        match=r"default, which is always loaded, and large together need about 3\.0 GB, and models may hold 2\.0",
    ):
        check_room({"default": 10**9, "fast": 10**9, "large": 2 * 10**9}, 2 * 10**9)
    with pytest.raises(TritonError, match=r"default needs about 3\.0 GB, and models may hold 2\.0 GB: give more with"):
        check_room({"default": 3 * 10**9}, 2 * 10**9)
