"""The encoder that reads samples computes the same in used slots as for whole utterances."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.engine.acoustics.bundle_files import BundleError, ModelDescription
from streamer.engine.acoustics.encoder_config import MOONSHINE_PERIOD, EncoderKind, MoonshineConfig
from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.engine.networks.activity_network import ActivityNetwork
from streamer.engine.networks.moonshine_encoder import MoonshineEncoder
from streamer.engine.networks.step_graphs import GraphedNetwork
from streamer.engine.waiting import finish
from tests.engine.networks.small_moonshine import CONFIG, DESCRIPTION

FRAME = CONFIG.frame_samples


@pytest.fixture(params=[1, 2], ids=["24 ms", "48 ms"])
def model(request: pytest.FixtureRequest) -> AcousticNetwork:
    """Provide a small untrained network, with frames as its blocks have them or with pairs of them."""
    torch.manual_seed(0)
    shape = replace(CONFIG, pooled=request.param, largest_chunk=26 // request.param)
    return AcousticNetwork(replace(DESCRIPTION, encoder=shape)).eval().requires_grad_(False)


@pytest.mark.parametrize("step_ms", DESCRIPTION.step_ms)
def test_streaming_equals_the_masked_whole(model: AcousticNetwork, step_ms: int) -> None:
    """Steps of samples on slots that were used before give the log-probabilities of the whole audio."""
    samples, slots = torch.randn(2, 91 * FRAME) * 0.1, torch.tensor([3, 1])
    state = model.make_state(4)
    model.step_tensors(state, slots, torch.randn(2, 7 * FRAME))
    model.reset(state, slots.tolist())
    step, frame = step_ms * 16, model.frame_samples
    steps = samples.shape[1] // step
    streamed = [model.step_tensors(state, slots, samples[:, at * step : (at + 1) * step]) for at in range(steps)]
    lengths = torch.tensor([samples.shape[1] // frame] * 2)
    whole = model(samples, lengths, step // frame, CONFIG.left_frames)
    assert whole.keys() == {"phones_middle", "phones", "characters"}
    for head in ("phones", "characters"):
        found = torch.cat([each[head] for each in streamed], dim=1)
        assert found.std() > 0.1
        torch.testing.assert_close(found, whole[head][:, : found.shape[1]], atol=1e-4, rtol=0)


def test_slots_of_mixed_age_and_company_do_not_matter(model: AcousticNetwork) -> None:
    """A stream that joins a batch at any time gets the same as alone, in batches that a GPU would record, too."""
    random = np.random.default_rng(0)
    graphed = GraphedNetwork(model.description)
    graphed.load_state_dict(model.state_dict())
    activity = ActivityNetwork()
    for each in (model, graphed):
        each.set_activity(activity)
        each.eval().requires_grad_(False)
    states = model.make_state(9), graphed.make_state(9)
    for turn in range(9):
        slots = random.permutation(9)[: random.integers(1, 10)].tolist()
        audio = random.integers(-30_000, 30_000, (len(slots), 7 * FRAME)).astype(np.int16)
        if turn % 4 == 3:
            model.reset(states[0], slots[:1])
            graphed.reset(states[1], slots[:1])
        expected = [model.step(states[0], [slot], own[None]) for slot, own in zip(slots, audio, strict=True)]
        found = graphed.step(states[1], slots, audio)
        assert found.keys() == expected[0].keys() == {"activity", "phones", "characters"}
        for head, rows in found.items():
            for row, own in zip(rows, expected, strict=True):
                np.testing.assert_allclose(row, own[head][0], atol=2e-4)


def test_slots_that_take_no_part_in_a_step_keep_their_state(model: AcousticNetwork) -> None:
    """A step writes only to the slots that it was given, and a reset clears only its own."""
    state = model.make_state(4)
    for tensor in state.values():
        tensor.copy_(torch.randint(1, 9, tensor.shape))
    before = {name: tensor.clone() for name, tensor in state.items()}
    others = torch.tensor([0, 1, 3])
    model.step_tensors(state, torch.tensor([2]), torch.randn(1, 7 * FRAME))
    for name, tensor in state.items():
        assert torch.equal(tensor[others], before[name][others])
        assert not torch.equal(tensor[2], before[name][2])
    model.reset(state, [2])
    for name, tensor in state.items():
        assert torch.equal(tensor[others], before[name][others])
        assert not tensor[2].any()


def test_the_same_audio_again_gives_the_same_bits(model: AcousticNetwork) -> None:
    """A stream that is computed anew in another slot gives the same bits."""
    audio = np.random.default_rng(2).integers(-9000, 9000, (5, 1, 7 * FRAME)).astype(np.int16)
    state = model.make_state(2)
    first, second = ([model.step(state, [slot], piece)["phones"] for piece in audio] for slot in (0, 1))
    assert np.array_equal(np.concatenate(first), np.concatenate(second))


def test_the_future_beyond_a_chunk_is_not_seen(model: AcousticNetwork) -> None:
    """Changing what comes after a chunk leaves the chunk's output as it was, and changes the next one's."""
    samples, frame = torch.randn(1, 4 * 7 * FRAME), model.frame_samples
    changed = samples.clone()
    changed[:, 2 * 7 * FRAME :] = 0
    lengths, chunk = torch.tensor([samples.shape[1] // frame]), 7 * FRAME // frame
    first, second = (model(each, lengths, chunk, CONFIG.left_frames)["phones"] for each in (samples, changed))
    torch.testing.assert_close(first[:, : 2 * chunk], second[:, : 2 * chunk])
    assert not torch.allclose(first[:, 2 * chunk :], second[:, 2 * chunk :])


def test_the_end_of_a_shorter_utterance_is_not_seen(model: AcousticNetwork) -> None:
    """What pads an utterance of a batch has no effect on it."""
    samples, frame = torch.randn(2, 21 * FRAME), model.frame_samples
    lengths = torch.tensor([21 * FRAME // frame, 14 * FRAME // frame])
    padded = model(samples, lengths)["phones"][1, : lengths[1]]
    alone = model(samples[1:, : 14 * FRAME], lengths[1:])["phones"][0]
    torch.testing.assert_close(padded, alone, atol=1e-5, rtol=0)


def test_an_endless_stream_goes_on_past_the_period_of_the_rotation(model: AcousticNetwork) -> None:
    """A stream older than the period gives the same frames as a young one with the same recent past."""
    samples, slots = torch.randn(1, 7 * FRAME * 4), torch.tensor([0])
    found = []
    ring = model.make_state(1)["keys"].shape[3]
    for age in (0, MOONSHINE_PERIOD * ring - 35):
        state = model.make_state(1)
        state["frames"].fill_(age)
        # Until its whole window is new, an old stream has heard zeros where a young one sees nothing.
        for piece in samples.repeat(1, 3).split(7 * FRAME, dim=1):
            emissions = model.step_tensors(state, slots, piece)
        found.append(emissions["phones"])
    torch.testing.assert_close(*found, atol=1e-4, rtol=0)


def test_loudness_is_that_of_the_segment_so_far(model: AcousticNetwork) -> None:
    """Speech that is four times as quiet gives nearly the same after a while, whatever usual speech is like."""
    assert isinstance(model.encoder, MoonshineEncoder)
    stem, samples = model.encoder.stem, torch.randn(1, 511 + 200 * FRAME) * 0.2
    stem.level.zero_()
    loud, quiet = (stem(each, torch.zeros(1, 3))[0][:, 200:] for each in (samples, samples / 4))
    assert (loud - quiet).norm() < 0.2 * loud.norm()


def test_a_complete_segment_is_one_long_step(model: AcousticNetwork) -> None:
    """Each frame of a complete segment sees later ones. No state of streams is read or written."""
    audio = np.random.default_rng(1).integers(-3000, 3000, 70 * FRAME).astype(np.int16)
    samples, frames = torch.from_numpy(audio).float().unsqueeze(0) / 32768, 70 * FRAME // model.frame_samples
    expected = model(samples, torch.tensor([frames]), frames, CONFIG.left_frames)["characters"]
    torch.testing.assert_close(torch.from_numpy(finish(model.whole(audio))["characters"]), expected, atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match=f"multiple of {model.frame_samples} samples"):
        finish(model.whole(audio[:-1]))


def test_low_precision_keeps_the_samples(model: AcousticNetwork, tmp_path: Path) -> None:
    """In bfloat16, the first convolution keeps all bits, so the result is near that in full precision."""
    model.save(tmp_path)
    loaded, low = AcousticNetwork.load(tmp_path), AcousticNetwork.load(tmp_path, dtype=torch.bfloat16)
    assert isinstance(low.encoder, MoonshineEncoder)
    assert low.encoder.dtype == torch.bfloat16
    assert low.encoder.stem.first.weight.dtype == low.encoder.stem.level.dtype == torch.float32
    audio = np.random.default_rng(3).integers(-99, 99, (2, 14 * FRAME)).astype(np.int16)
    full, rounded = (each.step(each.make_state(2), [1, 0], audio[:, : 7 * FRAME])["phones"] for each in (loaded, low))
    np.testing.assert_allclose(full, rounded, atol=0.1)


def test_a_description_survives_json_and_refuses_nonsense(tmp_path: Path) -> None:
    """The kind of the encoder is in the description; steps that its frames do not fill are refused, and so is a kind
    that this version does not know.
    """
    content = json.loads(json.dumps(DESCRIPTION.to_json()))
    assert content["encoder"]["kind"] == EncoderKind.MOONSHINE.value
    assert ModelDescription.from_json(content) == DESCRIPTION
    with pytest.raises(ValueError, match="pooled 0"):
        replace(CONFIG, pooled=0)
    with pytest.raises(ValueError, match="rotated 14"):
        replace(CONFIG, rotated=14)
    with pytest.raises(ValueError, match="width 25 does not split"):
        replace(CONFIG, width=25)
    with pytest.raises(ValueError, match="multiple of 768 samples"):
        replace(DESCRIPTION, step_ms=(160, 320, 640))
    AcousticNetwork(DESCRIPTION).save(tmp_path)
    content["encoder"]["kind"] = "telepathy"
    (tmp_path / "model.json").write_text(json.dumps(content))
    with pytest.raises(BundleError, match="telepathy"):
        AcousticNetwork.load(tmp_path)


def test_a_step_of_the_wrong_length_is_refused(model: AcousticNetwork) -> None:
    """A step that is not a multiple of a frame, or longer than the largest chunk, is refused."""
    state, slots = model.make_state(1), torch.tensor([0])
    for samples in (FRAME - 1, 14 * FRAME):
        with pytest.raises(ValueError, match="multiple of"):
            model.step_tensors(state, slots, torch.zeros(1, samples))


def test_shapes() -> None:
    """A frame is whole frames of Moonshine's convolutions, and so are the features for the activity."""
    assert (CONFIG.frame_samples, CONFIG.frame_ms, CONFIG.hop, CONFIG.frame_width) == (768, 48.0, 192, 48)
    single = replace(CONFIG, pooled=1)
    assert (single.frame_samples, single.hop, single.frame_width) == (384, 96, 24)
    assert isinstance(single, MoonshineConfig)
