"""The detector of speech gives each stream the same results, whatever else is computed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from streamer.engine.acoustics.acoustic_model import load_activity
from streamer.engine.acoustics.features import CONTEXT, LogMel, samples_of
from streamer.engine.acoustics.speech_detector import SpeechDetector
from streamer.engine.acoustics.streaming_model import SlotNetwork
from streamer.engine.networks.acoustic_network import read_activity
from streamer.engine.networks.host_arrays import network_detector
from streamer.engine.networks.log_mel import LogMelNetwork
from tests.project import BUNDLE
from tests.samples import pcm
from workshop.data.degradation import telephoned

PIECE = 1280
AUDIO = np.frombuffer(pcm("quilter.ogg"), np.int16)[: 30 * PIECE]
TALK = np.frombuffer(pcm("talk.flac"), np.int16)[: 100 * PIECE]


@pytest.fixture(scope="module")
def network() -> SlotNetwork:
    """Provide the shipped network as a graph."""
    found = load_activity(BUNDLE)
    assert found is not None
    return found


def heard(detector: SpeechDetector, slots: list[int], audio: NDArray[np.int16]) -> list[float]:
    """Return the probabilities of the first of these slots, in pieces; the others read other places of the audio."""
    found: list[float] = []
    for start in range(0, len(audio), PIECE):
        pieces = [np.roll(audio, 999 * number)[start : start + PIECE] for number in range(len(slots))]
        found += detector.compute(slots, [[piece] for piece in pieces])[0]
    return found


def test_pieces_are_heard_as_a_whole(network: SlotNetwork) -> None:
    """Pieces one after another, also in a batch, give the same probabilities as the whole audio at once."""
    with_context = np.concatenate([np.zeros(CONTEXT, np.int16), AUDIO])
    energies = LogMel.plain().energies(samples_of(with_context)[None])
    expected = np.exp(network.step(network.make_state(1), [0], energies)[0, :, 0]).tolist()
    detector = SpeechDetector.make(LogMel.plain(), network, 4)
    assert max(expected) > 0.9
    assert heard(detector, [2], AUDIO) == pytest.approx(expected, abs=1e-4)
    detector.reset([2])
    assert heard(detector, [2, 0, 3], AUDIO) == pytest.approx(expected, abs=1e-4)


def test_waiting_pieces_are_heard_as_one_by_one(network: SlotNetwork) -> None:
    """Slots with different numbers of pieces that wait get the same bits as if each piece had come alone."""
    together, alone = (SpeechDetector.make(LogMel.plain(), network, 3) for _ in range(2))
    waiting = {2: np.split(AUDIO[: 4 * PIECE], 4), 0: np.split(AUDIO[9 * PIECE : 10 * PIECE], 1)}
    found = together.compute(list(waiting), list(waiting.values()))
    first = alone.compute([2, 0], [waiting[2][:1], waiting[0]])
    expected = [first[0] + [each for piece in waiting[2][1:] for each in alone.compute([2], [[piece]])[0]], first[1]]
    assert found == expected
    assert all(np.array_equal(array, alone.state[name]) for name, array in together.state.items())


def test_torch_hears_the_same(network: SlotNetwork) -> None:
    """A detector that computes with torch gives the same probabilities up to rounding."""
    found = read_activity(BUNDLE)
    assert found is not None
    reference = network_detector(LogMelNetwork(), found.eval().requires_grad_(False), 4)
    expected = heard(reference, [2, 0, 3], AUDIO)
    assert heard(SpeechDetector.make(LogMel.plain(), network, 4), [2, 0, 3], AUDIO) == pytest.approx(expected, abs=1e-4)
    reference.reset([2])
    assert heard(reference, [2], AUDIO) == pytest.approx(expected, abs=1e-4)


def test_a_new_stream_inherits_nothing(network: SlotNetwork) -> None:
    """After a reset, a slot hears the same as a fresh one, and other slots keep their state."""
    detector = SpeechDetector.make(LogMel.plain(), network, 2)
    first = heard(detector, [0], AUDIO)
    heard(detector, [1], AUDIO[: 10 * PIECE])
    detector.reset([0])
    assert heard(detector, [0], AUDIO) == pytest.approx(first, abs=1e-5)
    assert heard(detector, [1], AUDIO[10 * PIECE :]) == pytest.approx(first[20:], abs=1e-4)


def test_speech_through_a_telephone_is_speech(network: SlotNetwork) -> None:
    """A talk is heard through a telephone line nearly as long as without it: what is not heard has no words."""
    line = np.rint(telephoned(TALK / 32768) * 32768).astype(np.int16)
    detector = SpeechDetector.make(LogMel.plain(), network, 1)
    direct = np.array(heard(detector, [0], TALK)) > 0.35
    detector.reset([0])
    through = np.array(heard(detector, [0], line)) > 0.35
    assert through.sum() > 0.85 * direct.sum()
