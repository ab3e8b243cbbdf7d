"""Features are causal, the same in any company, and those that torch computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from streamer.engine.acoustics.features import CONTEXT, FLOOR, HOP, Floats, LogMel, hann_window, mel_filters, samples_of
from streamer.engine.networks.log_mel import LogMelNetwork
from tests.samples import pcm


def noise(streams: int, hops: int) -> Floats:
    """Return loud noise with the samples before the first hop."""
    return np.random.default_rng(0).standard_normal((streams, CONTEXT + hops * HOP)).astype(np.float32)


def test_a_frame_does_not_see_later_samples() -> None:
    """Changing the samples after a frame's hop leaves that frame as it was."""
    features, samples = LogMel.plain(), noise(1, 10)
    changed = samples.copy()
    changed[:, CONTEXT + 6 * HOP :] = 0
    assert np.array_equal(features.energies(samples)[:, :6], features.energies(changed)[:, :6])
    assert not np.allclose(features.energies(samples)[:, 6], features.energies(changed)[:, 6])


@pytest.mark.parametrize("hops", [1, 3, 4, 32, 300])
def test_company_and_parts_do_not_matter(hops: int) -> None:
    """Audio in pieces, alone or in a batch, has the bits of the whole audio at once."""
    features, samples = LogMel.plain(), noise(3, 300)
    whole = features.energies(samples)
    for row in range(3):
        parts = [samples[row : row + 1, at * HOP : CONTEXT + (at + hops) * HOP] for at in range(0, 300, hops)]
        assert np.array_equal(np.concatenate([features.energies(part) for part in parts], axis=1)[0], whole[row])


def test_the_window_is_that_of_torch() -> None:
    """The window is the one of torch, up to the last bits, in which processors differ."""
    expected = torch.hann_window(400, periodic=False).numpy()
    assert np.abs(hann_window() - expected).max() < 1e-7
    assert np.mean(hann_window() == expected) > 0.5


@pytest.mark.parametrize("mels", [8, 40, 80, 128])
def test_it_computes_what_torch_computes(mels: int) -> None:
    """Energies of speech, of loud noise and of silence differ by less than a thousandth, also normalised."""
    speech = samples_of(np.frombuffer(pcm("quilter.ogg"), np.int16)[: CONTEXT + 200 * HOP])
    network = LogMelNetwork(mels)
    network.mean.normal_()
    network.deviation.uniform_(1, 3)
    features = LogMel(network.mean.numpy(), network.deviation.numpy())
    for samples in (speech[None], noise(2, 50), np.zeros((1, CONTEXT + HOP), np.float32)):
        found, expected = features.normalise(features.energies(samples)), network(torch.from_numpy(samples)).numpy()
        assert found.dtype == np.float32
        assert np.abs(found - expected).max() < 1e-3


def test_digital_silence_has_the_same_finite_features_everywhere() -> None:
    """Exact zeros give finite numbers, not far below those of the faintest noise."""
    silent = LogMel.plain().energies(np.zeros((1, CONTEXT + 3 * HOP), np.float32))
    faint = LogMel.plain().energies(noise(1, 3) / 32768)
    assert silent == pytest.approx(np.log(FLOOR))
    assert np.abs(faint - silent).max() < 2


def test_a_tone_is_loudest_in_the_band_of_its_frequency() -> None:
    """The filter with most energy is the one that covers the tone."""
    tone = np.sin(np.arange(CONTEXT + 4 * HOP) * 2 * np.pi * 1000 / 16000).astype(np.float32)
    loudest = int(LogMel.plain().energies(tone[None])[0, -1].argmax())
    assert loudest == int(mel_filters(80)[32].argmax())  # bin 32 of 512 at 16 kHz is 1000 Hz
