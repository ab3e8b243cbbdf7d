"""The acoustic model in torch computes the same in steps as on whole audio, and a saved bundle loads the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.networks.acoustic_network import AcousticNetwork, save_activity
from streamer.engine.networks.activity_network import ActivityNetwork
from streamer.engine.waiting import finish
from tests.engine.networks.small_network import DESCRIPTION, ENCODER


@pytest.fixture
def model() -> AcousticNetwork:
    """Provide a small untrained model."""
    torch.manual_seed(0)
    return AcousticNetwork(DESCRIPTION).eval().requires_grad_(False)


@pytest.mark.parametrize("step_ms", [160, 320, 640])
def test_streaming_samples_equals_the_whole(model: AcousticNetwork, step_ms: int) -> None:
    """Steps of samples on slots that were used before give the log-probabilities of the whole audio."""
    samples, slots = torch.randn(2, 640 * 96) * 0.1, torch.tensor([3, 1])
    state = model.make_state(4)
    model.step_tensors(state, slots, torch.randn(2, 5120))
    model.reset(state, slots.tolist())
    pieces = [model.step_tensors(state, slots, piece)["characters"] for piece in samples.split(step_ms * 16, dim=1)]
    whole = model(samples, torch.tensor([96, 96]), step_ms // 40, ENCODER.left_frames)["characters"]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-4, rtol=0)


def test_the_frames_of_the_whole(model: AcousticNetwork) -> None:
    """Whole audio gives the frames that steps give to the heads."""
    samples, slots = torch.randn(2, 640 * 24) * 0.1, torch.tensor([1, 0])
    state = model.make_state(2)
    pieces = [model.encode(state, slots, piece)[0] for piece in samples.split(5120, dim=1)]
    whole = model.frames(samples, torch.tensor([24, 24]), 8)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-4, rtol=0)


@pytest.mark.parametrize("frames", [1, 60, 600])
def test_a_whole_segment_is_one_long_step(model: AcousticNetwork, frames: int) -> None:
    """Each frame of a whole segment sees later ones, up to the longest step. No state of streams is read or written."""
    audio = np.random.default_rng(1).integers(-3000, 3000, 640 * frames).astype(np.int16)
    samples = torch.from_numpy(audio).float().unsqueeze(0) / 32768
    expected = model(samples, torch.tensor([frames]), 512, ENCODER.left_frames)["characters"]
    found = finish(model.whole(audio))["characters"]
    torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-4, rtol=0)
    for wrong in (audio[:0], audio[:-1]):
        with pytest.raises(ValueError, match="multiple of 640 samples"):
            finish(model.whole(wrong))


def test_a_step_of_audio(model: AcousticNetwork) -> None:
    """16-bit audio gives what its samples in [-1, 1) give, as an array, although the model could be trained."""
    audio = np.random.default_rng(0).integers(-32768, 32768, (2, 5120)).astype(np.int16)
    found = model.requires_grad_(True).step(model.make_state(4), [3, 1], audio)["characters"]
    samples = torch.from_numpy(audio).float() / 32768
    wanted = model.step_tensors(model.make_state(4), torch.tensor([3, 1]), samples)["characters"]
    assert np.array_equal(found, wanted)


def test_reset_leaves_no_trace_and_no_harm(model: AcousticNetwork) -> None:
    """A reset sets a slot to zeros and leaves its neighbours alone."""
    state = model.make_state(3)
    model.step_tensors(state, torch.tensor([0, 1, 2]), torch.randn(3, 5120))
    kept = {name: tensor[2].clone() for name, tensor in state.items()}
    model.reset(state, [0, 1])
    for name, tensor in state.items():
        assert not tensor[:2].any()
        assert torch.equal(tensor[2], kept[name])
        assert tensor.is_contiguous()


def test_a_bundle_is_read_back_in_half_precision(model: AcousticNetwork, tmp_path: Path) -> None:
    """A saved and loaded model computes the same, up to the precision of its weights."""
    model.save(tmp_path)
    loaded = AcousticNetwork.load(tmp_path)
    assert loaded.units == DESCRIPTION.units
    assert loaded.step_ms == (160, 320, 640)
    assert {path.name for path in tmp_path.iterdir()} == {"model.json", "weights.safetensors"}
    samples, lengths = torch.randn(1, 640 * 8) * 0.1, torch.tensor([8])
    torch.testing.assert_close(
        loaded(samples, lengths)["characters"], model(samples, lengths)["characters"], atol=2e-2, rtol=0
    )


def test_a_damaged_bundle_is_an_error_that_names_the_file(model: AcousticNetwork, tmp_path: Path) -> None:
    """Missing, broken and mismatched files are refused by name."""
    with pytest.raises(BundleError, match=r"model\.json is missing"):
        AcousticNetwork.load(tmp_path)
    model.save(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"no weights")
    with pytest.raises(BundleError, match=r"weights\.safetensors"):
        AcousticNetwork.load(tmp_path)
    description = json.loads((tmp_path / "model.json").read_text())
    description["units"] = {}
    (tmp_path / "model.json").write_text(json.dumps(description))
    with pytest.raises(BundleError, match="characters"):
        AcousticNetwork.load(tmp_path)


def test_a_step_of_broken_frames_is_refused(model: AcousticNetwork) -> None:
    """Samples that do not fill whole frames are an error."""
    with pytest.raises(ValueError, match="multiple of 640"):
        model.step_tensors(model.make_state(1), torch.tensor([0]), torch.zeros(1, 1000))


def test_a_bundle_may_tell_activity(model: AcousticNetwork, tmp_path: Path) -> None:
    """With an activity file steps of any length report activity; saving new weights leaves the file alone."""
    model.save(tmp_path)
    assert "activity" not in model.step_tensors(model.make_state(1), torch.tensor([0]), torch.zeros(1, 5120))
    torch.manual_seed(1)
    save_activity(ActivityNetwork(), tmp_path)
    loaded = AcousticNetwork.load(tmp_path, dtype=torch.bfloat16)
    assert loaded.state_dict().keys() == model.state_dict().keys()
    samples, told = torch.randn(2, 640 * 32) * 0.1, []
    for size in (2560, 5120, 10_240):
        state = loaded.make_state(4)
        loaded.step_tensors(state, torch.tensor([2, 0]), torch.randn(2, 5120))
        loaded.reset(state, [2, 0])
        steps = [
            loaded.step_tensors(state, torch.tensor([2, 0]), piece)["activity"] for piece in samples.split(size, dim=1)
        ]
        told.append(torch.cat(steps, dim=1))
    assert told[0].dtype == torch.float32
    assert told[0].shape == (2, 32, 1)
    torch.testing.assert_close(told[0], told[1], atol=1e-5, rtol=0)
    torch.testing.assert_close(told[0], told[2], atol=1e-5, rtol=0)
    loaded.save(tmp_path)
    assert {"activity_past", "activity_memory"} <= AcousticNetwork.load(tmp_path).make_state(1).keys()


def test_a_glance_at_a_step(model: AcousticNetwork) -> None:
    """A glance gives the activity that the step will have in these frames, and changes no state."""
    torch.manual_seed(1)
    model.set_activity(ActivityNetwork())
    audio = np.random.default_rng(0).integers(-9999, 9999, (2, 3 * 5120)).astype(np.int16)
    state, slots = model.make_state(4), [3, 1]
    for start in (0, 5120):
        model.step(state, slots, audio[:, start : start + 5120])
    before = {name: tensor.clone() for name, tensor in state.items()}
    seen = [model.glance(state, slot, row[10_240 : 10_240 + 3 * 640]) for slot, row in zip(slots, audio, strict=True)]
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.items())
    wanted = model.step(state, slots, audio[:, 10_240:])["activity"][:, :3, 0]
    np.testing.assert_allclose(seen, np.exp(wanted), atol=1e-5)
    assert wanted.std() > 1e-4


def test_a_damaged_activity_file_is_named(model: AcousticNetwork, tmp_path: Path) -> None:
    """An activity file that cannot be read is an error of the bundle."""
    model.save(tmp_path)
    (tmp_path / "activity.safetensors").write_bytes(b"nothing")
    with pytest.raises(BundleError, match=r"activity\.safetensors"):
        AcousticNetwork.load(tmp_path)
