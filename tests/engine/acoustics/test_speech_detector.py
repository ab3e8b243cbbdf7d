"""The detector of speech gives each stream the same results, whatever else is computed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from streamer.engine.acoustics.acoustic_model import read_activity
from streamer.engine.acoustics.features import CONTEXT, LogMel
from streamer.engine.acoustics.speech_detector import ActivityNetwork, SpeechDetector
from streamer.engine.network_graphs import CompiledActivity
from tests.project import ROOT
from tests.samples import pcm
from workshop.data.degradation import telephoned

PIECE = 1280
AUDIO = np.frombuffer(pcm("quilter.ogg"), np.int16)[: 30 * PIECE]
TALK = np.frombuffer(pcm("talk.flac"), np.int16)[: 100 * PIECE]


@pytest.fixture(scope="module")
def network() -> ActivityNetwork:
    found = read_activity(ROOT / "asr_repo" / "streaming_asr" / "1")
    assert found is not None
    return found.eval().requires_grad_(False)


def heard(detector: SpeechDetector, slots: list[int], audio: NDArray[np.int16]) -> list[float]:
    """Return the probabilities of the first of these slots, in pieces; the others read other places of the audio."""
    found: list[float] = []
    for start in range(0, len(audio), PIECE):
        pieces = [np.roll(audio, 999 * number)[start : start + PIECE] for number in range(len(slots))]
        found += detector.compute(slots, [[piece] for piece in pieces])[0]
    return found


def test_pieces_are_heard_as_a_whole(network: ActivityNetwork) -> None:
    """Pieces one after another, also in a batch, give the same probabilities as the whole audio at once."""
    with_context = np.concatenate([np.zeros(CONTEXT, np.int16), AUDIO])
    energies = LogMel().energies(torch.from_numpy(with_context).float().unsqueeze(0) / 32768)
    expected = network(energies)[0, :, 0].exp().tolist()
    detector = SpeechDetector.make(LogMel(), network, 4)
    assert max(expected) > 0.9
    assert heard(detector, [2], AUDIO) == pytest.approx(expected, abs=1e-4)
    detector.reset([2])
    assert heard(detector, [2, 0, 3], AUDIO) == pytest.approx(expected, abs=1e-4)


def test_waiting_pieces_are_heard_as_one_by_one(network: ActivityNetwork) -> None:
    """Slots with different numbers of pieces that wait get the same bits as if each piece had come alone."""
    compiled = CompiledActivity(network)
    together, alone = (SpeechDetector.make(LogMel(), compiled, 3) for _ in range(2))
    waiting = {2: np.split(AUDIO[: 4 * PIECE], 4), 0: np.split(AUDIO[9 * PIECE : 10 * PIECE], 1)}
    found = together.compute(list(waiting), list(waiting.values()))
    first = alone.compute([2, 0], [waiting[2][:1], waiting[0]])
    expected = [first[0] + [each for piece in waiting[2][1:] for each in alone.compute([2], [[piece]])[0]], first[1]]
    assert found == expected
    assert all(torch.equal(tensor, alone.state[name]) for name, tensor in together.state.items())


def test_a_new_stream_inherits_nothing(network: ActivityNetwork) -> None:
    """After a reset, a slot hears the same as a fresh one, and other slots keep their state."""
    detector = SpeechDetector.make(LogMel(), network, 2)
    first = heard(detector, [0], AUDIO)
    heard(detector, [1], AUDIO[: 10 * PIECE])
    detector.reset([0])
    assert heard(detector, [0], AUDIO) == pytest.approx(first, abs=1e-5)
    assert heard(detector, [1], AUDIO[10 * PIECE :]) == pytest.approx(first[20:], abs=1e-4)


def test_speech_through_a_telephone_is_speech(network: ActivityNetwork) -> None:
    """A talk is heard through a telephone line nearly as long as without it: what is not heard has no words."""
    line = np.rint(telephoned(TALK / 32768) * 32768).astype(np.int16)
    detector = SpeechDetector.make(LogMel(), network, 1)
    direct = np.array(heard(detector, [0], TALK)) > 0.35
    detector.reset([0])
    through = np.array(heard(detector, [0], line)) > 0.35
    assert through.sum() > 0.85 * direct.sum()


@pytest.fixture
def head() -> ActivityNetwork:
    """Provide a small untrained network."""
    torch.manual_seed(0)
    return ActivityNetwork(mels=80, width=8, memory=8).eval().requires_grad_(False)


@pytest.mark.parametrize("frames", [4, 8, 16])
def test_steps_of_any_length_equal_the_whole(head: ActivityNetwork, frames: int) -> None:
    """Steps on used slots, in a batch, give the same results as the whole recording."""
    energies, slots = torch.randn(2, 4 * 48, 80) * 3, torch.tensor([3, 1])
    state = head.make_state(4)
    head.step(state, torch.arange(4), torch.randn(4, 16, 80))
    for tensor in state.values():
        tensor[slots] = 0
    pieces = [head.step(state, slots, piece) for piece in energies.split(4 * frames, dim=1)]
    whole = head(energies)
    assert whole.shape == (2, 48, 1)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=0)
    torch.testing.assert_close(head(energies[:1]), whole[:1], atol=1e-5, rtol=0)


def test_the_head_hears_nothing_of_the_future(head: ActivityNetwork) -> None:
    """Later features do not change a frame."""
    energies = torch.randn(1, 80, 80)
    other = energies.clone()
    other[:, 40:] = torch.randn(1, 40, 80)
    torch.testing.assert_close(head(energies)[:, :10], head(other)[:, :10], atol=1e-6, rtol=0)
