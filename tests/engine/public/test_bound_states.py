"""The states of a graph in slots on a device. Here the device is the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.engine.public.bound_states import BoundStates
from streamer.engine.public.graph_model import FRAMES, GraphModel
from streamer.engine.public.sessions import DeviceKind, Placement
from streamer.models.model_folder import read_model_folder
from workshop.graphs.exact_icefall import (
    make_conformer_folder,
    make_ctc_folder,
    make_lstm_folder,
    make_zipformer_folder,
)
from workshop.graphs.exact_nemo import make_t_one_folder, make_whole_ctc_folder

Make = Callable[[Path], Path]
BOUND = Placement(DeviceKind.CPU)
SLOTS = 4


@pytest.mark.parametrize(
    "make",
    [
        make_ctc_folder,
        make_zipformer_folder,
        make_lstm_folder,
        make_conformer_folder,
        make_t_one_folder,
        make_whole_ctc_folder,
    ],
)
def test_the_same_frames(make: Make, tmp_path: Path) -> None:
    """Whichever slots are computed or reset, the frames are those of a model that computes with numpy."""
    public = read_model_folder(make(tmp_path))
    models = GraphModel(public, "numpy"), GraphModel(public, "bound", BOUND)
    states = [model.make_state(SLOTS) for model in models]
    assert isinstance(states[1], BoundStates)
    random = np.random.default_rng(0)
    length = public.layout.step_samples + models[0].ahead_samples
    slots, given = [0, 2], []
    for _ in range(24):
        if random.random() < 0.5:
            slots = random.choice(SLOTS, random.integers(1, SLOTS + 1), replace=False).tolist()
        samples = random.integers(-9000, 9000, (len(slots), length), np.int16)
        given.append([model.step(state, slots, samples)[FRAMES] for model, state in zip(models, states, strict=True)])
        if random.random() < 0.3:
            cleared = random.choice(SLOTS, 2, replace=False).tolist()
            for model, state in zip(models, states, strict=True):
                model.reset(state, cleared)
    assert all(np.array_equal(*frames) for frames in given)  # also those of former steps


def test_states_stay_where_they_are(tmp_path: Path) -> None:
    """As long as the same slots are computed, no state is copied: the graph reads what it wrote."""
    public = read_model_folder(make_ctc_folder(tmp_path))
    model = GraphModel(public, "bound", BOUND)
    state = model.make_state(SLOTS)
    assert isinstance(state, BoundStates)
    [name, *_] = (port.input.name for port in public.layout.states)
    samples = np.full((1, public.layout.step_samples + model.ahead_samples), 5000, np.int16)
    samples[:, ::2] = -5000
    model.step(state, [1], samples)
    assert not state[name].any()
    state.settle()
    assert isinstance(state[name], torch.Tensor)
    assert state[name].any()
