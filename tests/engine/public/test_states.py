"""The states of a graph in slots."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from streamer.engine.public.graph_model import FRAMES, GraphModel
from streamer.engine.public.sessions import DeviceKind, Placement, on_gpu
from streamer.engine.public.states import BoundStates, SlotStates
from streamer.models.layout import StatePort
from streamer.models.model_folder import read_model_folder
from streamer.models.onnx_file import ElementType, Port
from workshop.graphs.exact_icefall import (
    make_conformer_folder,
    make_ctc_folder,
    make_lstm_folder,
    make_zipformer_folder,
)
from workshop.graphs.exact_nemo import make_t_one_folder

SLOTS = 5


def test_every_slot_keeps_its_own_states() -> None:
    """Whichever slots are computed together, each has its own states since its last reset."""
    ports = [
        StatePort(Port("first", ElementType.FLOAT, None), (1, 2), 0, "first"),
        StatePort(Port("middle", ElementType.INT64, None), (2, 1, 3), 1, "middle"),
    ]
    states = SlotStates(ports, [np.float32, np.int64], SLOTS)
    expected = [0] * SLOTS
    random = np.random.default_rng(0)
    slots = [0, 2, 3]
    for _ in range(200):
        if random.random() < 0.4:
            slots = sorted(random.choice(SLOTS, random.integers(1, SLOTS), replace=False).tolist())
        batch = states.batch(slots)
        assert batch["first"][:, 0].tolist() == [expected[slot] for slot in slots]
        assert batch["middle"][1, :, 2].tolist() == [expected[slot] for slot in slots]
        added = random.integers(1, 100, len(slots))
        states.replace(slots, [batch["first"] + added[:, None], batch["middle"] + added[None, :, None]])
        for slot, number in zip(slots, added.tolist(), strict=True):
            expected[slot] += number
        if random.random() < 0.3:
            cleared = random.choice(SLOTS, 2, replace=False).tolist()
            states.reset(cleared)
            for slot in cleared:
                expected[slot] = 0
    states.settle()
    assert states["middle"][0, :, 0].tolist() == expected


def test_the_same_batch_is_not_copied() -> None:
    """If the same slots are computed again, the graph gets the arrays that it returned."""
    states = SlotStates([StatePort(Port("state", ElementType.FLOAT, None), (1, 2), 0, "out")], [np.float32], SLOTS)
    states.batch([1, 2])
    given = np.ones((2, 2), np.float32)
    states.replace([1, 2], [given])
    assert states.batch([1, 2])["state"] is given
    assert states.batch([2])["state"].tolist() == [[1, 1]]


Make = Callable[[Path], Path]
BOUND = Placement(DeviceKind.CPU)
SLOTS_OF_BOUND_STATES = 4


@pytest.mark.parametrize(
    "make", [make_ctc_folder, make_zipformer_folder, make_lstm_folder, make_conformer_folder, make_t_one_folder]
)
def test_the_same_frames(make: Make, tmp_path: Path) -> None:
    """Whichever slots are computed or reset, the frames are those of a model that computes with numpy."""
    public = read_model_folder(make(tmp_path))
    models = GraphModel(public, "numpy"), GraphModel(public, "bound", BOUND)
    states = [model.make_state(SLOTS_OF_BOUND_STATES) for model in models]
    assert isinstance(states[1], BoundStates)
    random = np.random.default_rng(0)
    length = public.layout.step_samples + models[0].ahead_samples
    slots, given = [0, 2], []
    for _ in range(24):
        if random.random() < 0.5:
            slots = random.choice(
                SLOTS_OF_BOUND_STATES, random.integers(1, SLOTS_OF_BOUND_STATES + 1), replace=False
            ).tolist()
        samples = random.integers(-9000, 9000, (len(slots), length), np.int16)
        given.append([model.step(state, slots, samples)[FRAMES] for model, state in zip(models, states, strict=True)])
        if random.random() < 0.3:
            cleared = random.choice(SLOTS_OF_BOUND_STATES, 2, replace=False).tolist()
            for model, state in zip(models, states, strict=True):
                model.reset(state, cleared)
    assert all(np.array_equal(*frames) for frames in given)  # also those of former steps


def test_states_stay_where_they_are(tmp_path: Path) -> None:
    """As long as the same slots are computed, no state is copied: the graph reads what it wrote."""
    public = read_model_folder(make_ctc_folder(tmp_path))
    model = GraphModel(public, "bound", BOUND)
    state = model.make_state(SLOTS_OF_BOUND_STATES)
    assert isinstance(state, BoundStates)
    [name, *_] = (port.input.name for port in public.layout.states)
    samples = np.full((1, public.layout.step_samples + model.ahead_samples), 5000, np.int16)
    samples[:, ::2] = -5000
    model.step(state, [1], samples)
    assert not state[name].any()
    state.settle()
    assert isinstance(state[name], torch.Tensor)
    assert state[name].any()


@pytest.mark.skipif("CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="there is CUDA")
def test_without_cuda(caplog: pytest.LogCaptureFixture) -> None:
    """Where onnxruntime cannot use a GPU, the CPU computes, and the log names the package that is needed."""
    with caplog.at_level(logging.WARNING):
        assert on_gpu(0) is None
    assert "The public model computes on the CPU, although there is a GPU" in caplog.text
    assert "install the package onnxruntime-gpu instead of onnxruntime" in caplog.text
