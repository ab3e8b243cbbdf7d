"""Features are causal, chunk by chunk equal to the whole, and defined for digital silence."""

from __future__ import annotations

import torch

from streamer.engine.acoustics.features import CONTEXT, HOP, LogMel, mel_filters


def test_a_frame_does_not_see_later_samples() -> None:
    """Changing the samples after a frame's hop leaves that frame as it was."""
    torch.manual_seed(0)
    features, samples = LogMel(), torch.randn(1, CONTEXT + 10 * HOP)
    changed = samples.clone()
    changed[:, CONTEXT + 6 * HOP :] = 0
    assert torch.equal(features(samples)[:, :6], features(changed)[:, :6])
    assert not torch.allclose(features(samples)[:, 6], features(changed)[:, 6])


def test_pieces_give_the_features_of_the_whole() -> None:
    """Audio in pieces, each with the samples before it, has the features of the audio at once."""
    torch.manual_seed(0)
    features, samples = LogMel(), torch.randn(2, CONTEXT + 12 * HOP)
    pieces = [features(samples[:, start * HOP : CONTEXT + (start + 4) * HOP]) for start in (0, 4, 8)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), features(samples))


def test_digital_silence_has_the_same_finite_features_everywhere() -> None:
    """Exact zeros give finite numbers, not far below those of the faintest noise."""
    features = LogMel()
    silent = features(torch.zeros(1, CONTEXT + 3 * HOP))
    faint = features(torch.randn(1, CONTEXT + 3 * HOP) / 32768)
    assert torch.isfinite(silent).all()
    assert torch.equal(silent[:, 0], silent[:, 2])
    assert (faint - silent).abs().max() < 2


def test_a_tone_is_loudest_in_the_band_of_its_frequency() -> None:
    """The filter with most energy is the one that covers the tone."""
    tone = torch.sin(torch.arange(CONTEXT + 4 * HOP) * 2 * torch.pi * 1000 / 16000).unsqueeze(0)
    loudest = int(LogMel()(tone)[0, -1].argmax())
    assert loudest == int(mel_filters(80)[32].argmax())  # bin 32 of 512 at 16 kHz is 1000 Hz
