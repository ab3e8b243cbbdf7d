"""The encoder computes the same in used slots as for whole utterances."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from streamer.engine.acoustics.encoder_config import ROTATION_PERIOD, CtcHead, EncoderConfig, rotation_tables
from streamer.engine.acoustics.streaming_model import Emissions, ModelState
from streamer.engine.networks.encoder import Encoder, RotaryPosition

CONFIG = EncoderConfig(
    outputs=(CtcHead("phones", 2, 7), CtcHead("characters", 3, 5)),
    stem=16,
    width=32,
    layers=3,
    heads=2,
    feedforward=48,
    left_frames=24,
)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    """Provide a small untrained encoder."""
    torch.manual_seed(0)
    return Encoder(CONFIG).eval().requires_grad_(False)


def whole(encoder: Encoder, mel: Tensor, chunk: int) -> Emissions:
    """Return the output of the encoder for whole utterances of equal length."""
    lengths = torch.full((mel.shape[0],), mel.shape[1] // 4)
    found: Emissions = encoder(mel, lengths, chunk, CONFIG.left_frames)
    return found


def stream(encoder: Encoder, state: ModelState, slots: Tensor, mel: Tensor, chunk: int) -> Emissions:
    """Return the output of the encoder chunk by chunk in slots."""
    steps = [encoder.emissions(encoder.step(state, slots, piece)) for piece in mel.split(4 * chunk, dim=1)]
    return {head: torch.cat([step[head] for step in steps], dim=1) for head in steps[0]}


def dirty(state: ModelState) -> ModelState:
    """Return a state with remains of other streams."""
    for tensor in state.values():
        tensor.copy_(torch.randint(1, 99, tensor.shape))
    return state


def clean(state: ModelState, slots: Tensor) -> None:
    """What a model does at the start of a stream."""
    for tensor in state.values():
        tensor.index_fill_(0, slots, 0)


@pytest.mark.parametrize("chunk", [4, 8, 16])
def test_streaming_equals_the_masked_whole(encoder: Encoder, chunk: int) -> None:
    """Chunks in used slots give the same frames as the whole utterance."""
    torch.manual_seed(1)
    mel, slots = torch.randn(3, 4 * 96, CONFIG.mels), torch.tensor([6, 0, 3])
    state = dirty(encoder.make_state(8))
    clean(state, slots)
    streamed, expected = stream(encoder, state, slots, mel, chunk), whole(encoder, mel, chunk)
    assert (streamed.keys(), expected.keys()) == ({"characters"}, {"phones", "characters"})
    torch.testing.assert_close(streamed["characters"], expected["characters"], atol=1e-4, rtol=0)


def test_slots_of_mixed_age_and_company_do_not_matter(encoder: Encoder) -> None:
    """A stream that joins a batch of 32 at any time gets the same frames as alone."""
    torch.manual_seed(2)
    mel = torch.randn(32, 4 * 80, CONFIG.mels)
    state = dirty(encoder.make_state(33))
    slots = torch.randperm(32)
    found: list[list[Tensor]] = [[] for _ in range(32)]
    for step in range(17):
        if step % 3 == 0:  # streams join in three groups and so have three ages
            clean(state, slots[step // 3 :: 3] if step < 9 else slots[:0])
        active = torch.tensor([row for row in range(32) if row % 3 <= step // 3 and step - 3 * (row % 3) < 8])
        if not len(active):
            continue
        pieces = torch.stack([mel[row, 32 * (step - 3 * (row % 3)) :][:32] for row in active.tolist()])
        emissions = encoder.emissions(encoder.step(state, slots[active], pieces))["characters"]
        for row, emission in zip(active.tolist(), emissions, strict=True):
            found[row].append(emission)
    expected = whole(encoder, mel[:, : 4 * 64], 8)["characters"]
    torch.testing.assert_close(torch.stack([torch.cat(row) for row in found]), expected, atol=1e-4, rtol=0)


def test_slots_that_take_no_part_in_a_step_keep_their_state(encoder: Encoder) -> None:
    """A step writes only to the slots that it was given."""
    state = dirty(encoder.make_state(4))
    before = {name: tensor.clone() for name, tensor in state.items()}
    encoder.step(state, torch.tensor([2]), torch.randn(1, 32, CONFIG.mels))
    for name, tensor in state.items():
        others = torch.tensor([0, 1, 3])
        assert torch.equal(tensor[others], before[name][others])
        assert not torch.equal(tensor[2], before[name][2])


def test_the_future_beyond_a_chunk_is_not_seen(encoder: Encoder) -> None:
    """Changing what comes after a chunk leaves the chunk's output as it was."""
    mel = torch.randn(1, 4 * 32, CONFIG.mels)
    changed = mel.clone()
    changed[:, 4 * 16 :] = 0
    first, second = whole(encoder, mel, 8)["phones"], whole(encoder, changed, 8)["phones"]
    torch.testing.assert_close(first[:, :16], second[:, :16])
    assert not torch.allclose(first[:, 16:], second[:, 16:])


def test_an_endless_stream_goes_on_past_the_period_of_the_rotation(encoder: Encoder) -> None:
    """A stream older than the period gives the same frames as a young one with the same recent past."""
    torch.manual_seed(3)
    mel, slots = torch.randn(1, 4 * 64, CONFIG.mels), torch.tensor([0])
    young, old = encoder.make_state(1), encoder.make_state(1)
    old["frames"].fill_(ROTATION_PERIOD * encoder.make_state(1)["keys"].shape[3] - 24)
    # The old stream has heard zeros only in its keys; after a whole window of new frames both hold the same.
    for state in (young, old):
        stream(encoder, state, slots, mel.repeat(1, 3, 1), 8)
    first, second = (stream(encoder, state, slots, mel, 8)["characters"] for state in (young, old))
    torch.testing.assert_close(first, second, atol=1e-4, rtol=0)


def test_rotation_depends_on_distance_alone() -> None:
    """The product of a rotated query and key depends only on their distance, beyond the period too."""
    rotation = RotaryPosition(rotation_tables(16))
    query, key = torch.randn(1, 1, 1, 1, 16), torch.randn(1, 1, 1, 1, 16)

    def rotated(vector: Tensor, at: int) -> Tensor:
        turned: Tensor = rotation(vector, rotation.angles(torch.tensor([at])))
        return turned

    products = [
        float((rotated(query, at + 9) * rotated(key, at)).sum()) for at in (0, 500, ROTATION_PERIOD - 3, 70_000)
    ]
    assert max(products) - min(products) < 1e-4


def test_a_step_of_the_wrong_length_is_refused(encoder: Encoder) -> None:
    """A step that is not a multiple of a frame, or longer than the largest chunk, is refused."""
    state = encoder.make_state(1)
    for frames in (6, 4 * 17):
        with pytest.raises(ValueError, match="4 to 64 feature frames"):
            encoder.step(state, torch.tensor([0]), torch.zeros(1, frames, CONFIG.mels))


def test_a_configuration_survives_json_and_refuses_nonsense() -> None:
    """A configuration survives JSON; a head at a layer that does not exist is refused."""
    assert EncoderConfig.from_json(CONFIG.to_json()) == CONFIG
    with pytest.raises(ValueError, match="layer"):
        EncoderConfig(outputs=(CtcHead("phones", 9, 3),))
    with pytest.raises(ValueError, match="width"):
        EncoderConfig(outputs=(), width=30, heads=4)
