"""The encoder side of Moonshine: what is refused when it is loaded, and what its emissions are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from streamer.engine.acoustics.acoustic_model import load_activity
from streamer.engine.acoustics.streaming_model import ACTIVITY
from streamer.engine.public.graph_model import FRAMES
from streamer.engine.public.loading import load_public_model
from streamer.engine.public.moonshine_model import MoonshineModel
from streamer.models.model_folder import ModelFolderError
from streamer.models.moonshine_folder import read_moonshine_folder
from tests.project import BUNDLE
from tests.samples import pcm
from workshop.graphs.exact_icefall import GraphBuilder
from workshop.graphs.exact_moonshine import make_moonshine_folder, write_ort

STEP, AHEAD = 5120, 5120


def test_emissions(tmp_path: Path) -> None:
    """An emission frame has 40 ms: two frames of the memory, and whether somebody speaks, as in the shipped model."""
    network = load_activity(BUNDLE)
    assert network is not None
    model = MoonshineModel(read_moonshine_folder(make_moonshine_folder(tmp_path)), "small", network, network.mels)
    speech = np.frombuffer(pcm("talk.flac", 3.0), np.int16)
    state = model.make_state(3)
    emissions = model.step(state, [2, 0], np.stack([speech[at : at + STEP + AHEAD] for at in (0, 16_000)]))
    assert emissions[FRAMES].shape == (2, 8, 32)
    assert emissions[ACTIVITY].shape == (2, 8, 1)
    assert state["place"].tolist() == [16, 0, 16]
    assert np.exp(emissions[ACTIVITY]).max() > 0.5
    model.reset(state, [0, 2])
    assert not any(array.any() for array in state.values())


def test_any_division_into_steps(tmp_path: Path) -> None:
    """Steps of 320 and of 640 ms give the same frames."""
    model = MoonshineModel(read_moonshine_folder(make_moonshine_folder(tmp_path)), "small")
    sound = np.random.default_rng(0).integers(-3000, 3000, 8 * STEP + AHEAD, dtype=np.int16)
    frames = []
    for step in (STEP, 2 * STEP):
        state = model.make_state(1)
        parts = [model.step(state, [0], sound[None, at : at + step + AHEAD])[FRAMES] for at in range(0, 8 * STEP, step)]
        frames.append(np.concatenate(parts, axis=1))
    assert frames[0].any()
    assert np.array_equal(*frames)


def _far(folder: Path) -> None:
    """An encoder that adds the mean of all frames."""
    builder = GraphBuilder(0)
    frames = builder.input("features", ("N", "T", 16))
    mean = builder.node("ReduceMean", frames, axes=[1], keepdims=1)
    builder.output(builder.node("Add", frames, mean), "encoded", ("N", "T", 16))
    write_ort(builder, folder / "encoder.ort")


def _short(folder: Path) -> None:
    """An encoder that leaves out the last frame."""
    builder = GraphBuilder(0)
    frames = builder.input("features", ("N", "T", 16))
    ends = (builder.constant([at], np.int64) for at in (0, -1, 1))
    builder.output(builder.node("Slice", frames, *ends), "encoded", ("N", "Short", 16))
    write_ort(builder, folder / "encoder.ort")


def _few_places(folder: Path) -> None:
    """An adapter whose table ends too early."""
    builder = GraphBuilder(0)
    frames, offset = builder.input("encoded", ("N", "T", 16)), builder.input("pos_offset", ("N",), 7)
    row = builder.node("Gather", builder.constant(np.ones((500, 16))), offset)
    placed = builder.node("Add", frames, builder.node("Unsqueeze", row, builder.constant([1], np.int64)))
    builder.output(placed, "memory", ("N", "T", 16))
    write_ort(builder, folder / "adapter.ort")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_far, r"encoder\.ort reads farther than 32 features back and 16 ahead, or mixes streams"),
        (_short, r"cannot be computed: the encoder gave frames of the shape"),
        (_few_places, r"adapter\.ort has no places for a segment of 60 s"),
        (
            lambda folder: (folder / "encoder.ort").write_bytes(
                (folder / "encoder.ort").read_bytes().replace(b"Conv", b"Wonv")
            ),
            r"encoder\.ort is not accepted by onnxruntime",
        ),
    ],
)
def test_graphs_that_do_not_do_what_they_say(change: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    """They are refused when they are loaded, and not when somebody speaks."""
    folder = make_moonshine_folder(tmp_path)
    change(folder)
    with pytest.raises(ModelFolderError, match=said) as refusal:
        load_public_model(folder, name="small", slots=2)
    assert str(refusal.value).isprintable()
