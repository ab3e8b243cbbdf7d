"""Augmented audio is still valid: rooms, lines and voices change it, masks and dropout stay within bounds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.engine.acoustics.features import mel_centres
from streamer.engine.networks.encoder import Encoder, FeedForward
from tests.workshop.acoustic.tiny_run import CPU, ENCODER, make_work
from workshop.acoustic.augmentation import (
    CONDITIONS,
    LONGEST_S,
    SHORTEST_S,
    Augmentation,
    Conditions,
    add_dropout,
    companded,
    masked,
    narrowed,
    recorded_rooms,
    synthetic_rooms,
    telephoned,
    with_other_voices,
)
from workshop.data.corpus import Corpus, CorpusError, Utterance, write_corpus
from workshop.data.degradation import ringing_seconds


@pytest.mark.parametrize("conditions", CONDITIONS.values(), ids=CONDITIONS)
def test_augmented_audio_stays_audio(tmp_path: Path, conditions: Conditions) -> None:
    """Augmented audio is finite, within full scale and as long as before; features keep their shape."""
    work = make_work(tmp_path)
    augmentation = Augmentation(Corpus(work, "noise"), Corpus(work, "rooms"), CPU, conditions)
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(40, 8000) * 0.05
    samples[0] = 0
    changed = augmentation.audio(samples, generator)
    assert changed.shape == samples.shape
    assert torch.isfinite(changed).all()
    assert changed.abs().max() <= 1
    masked = augmentation.mel(torch.ones(4, 200, 80), torch.tensor([50, 50, 20, 1]), generator)
    assert 0 < masked.mean() < 1


def test_bands_and_stretches_of_samples(tmp_path: Path) -> None:
    """Samples lose bands of frequencies and keep all others; as much of the frames is hidden as of features."""
    work = make_work(tmp_path)
    conditions = Conditions(bands=1, widest_band=40, stretches=2, longest_share=0.2, longest_stretch=40)
    augmentation = Augmentation(Corpus(work, "noise"), Corpus(work, "rooms"), CPU, conditions)
    generator = torch.Generator().manual_seed(3)
    samples = torch.randn(30, 1 << 14)
    spectra = [torch.fft.rfft(each).abs() for each in (samples, augmentation.without_bands(samples, generator))]
    gone = spectra[1] < 0.01 * spectra[0]
    assert 0.05 < gone.float().mean() < 0.4
    torch.testing.assert_close(spectra[1][~gone], spectra[0][~gone], atol=1e-2, rtol=1e-2)
    edges = [row.nonzero().flatten() for row in gone if row.any()]
    assert all(len(own) == own[-1] - own[0] + 1 for own in edges)  # one band in each row
    lengths = torch.tensor([200] * 29 + [0])
    kept = augmentation.kept(lengths, 201, 48.0, generator)
    assert kept.shape == (30, 201)
    assert kept[:, 200].all()
    assert kept[29].all()
    hidden = (1 - kept[:29]).sum(1)
    assert hidden.mean() > 0
    assert hidden.max() <= 2 * math.ceil(40 * 10 / 48)  # 40 feature frames of 10 ms, in frames of 48 ms


def test_each_row_gets_its_own_noise_within_bounds(tmp_path: Path) -> None:
    """Noise is 5 to 30 dB below the speech of its row, and without noise rows only become louder or quieter."""
    work = make_work(tmp_path)
    samples = torch.randn(60, 8000) * torch.logspace(-2, -0.7, 60).unsqueeze(1)
    left: dict[float, list[float]] = {}
    for chance in (0.0, 1.0):
        conditions = Conditions(room=0, line=0, noise=chance)
        augmentation = Augmentation(Corpus(work, "noise"), Corpus(work, "rooms"), CPU, conditions)
        changed = augmentation.audio(samples, torch.Generator().manual_seed(0))
        gains = (changed * samples).sum(1, keepdim=True) / samples.square().sum(1, keepdim=True)
        rest = changed / gains - samples
        left[chance] = (10 * (rest.square().mean(1) / samples.square().mean(1)).log10()).tolist()
    assert sorted(left[0.0])[40] < -40  # gates and dither change the others
    assert all(-31 < decibels < -4 for decibels in sorted(left[1.0])[10:50])
    assert max(left[1.0]) > -10


def test_each_row_is_in_its_own_room(tmp_path: Path) -> None:
    """A click comes first and at its place, and its echoes differ from row to row."""
    work = make_work(tmp_path)
    conditions = Conditions(room=1, line=0, noise=0, synthetic_rooms=1)
    augmentation = Augmentation(Corpus(work, "noise"), Corpus(work, "rooms"), CPU, conditions)
    clicks = torch.zeros(8, 16000)
    clicks[:, 2000] = 0.5
    changed = augmentation.audio(clicks, torch.Generator().manual_seed(3))
    assert changed[:, :2000].abs().max() < 1e-3
    assert (changed[:, 2000].abs() > 0).all()
    echoes = torch.nn.functional.normalize(changed[:, 2032:])
    assert ((echoes @ echoes.T) - torch.eye(8)).abs().max() < 0.5


def test_dropout_changes_the_training_and_nothing_else() -> None:
    """With dropout, two passes of the training differ; in evaluation mode they are as without it."""
    torch.manual_seed(0)
    encoder, mel, lengths = Encoder(ENCODER), torch.randn(2, 40, 80), torch.tensor([10, 7])
    names = list(encoder.state_dict())
    before = encoder.eval()(mel, lengths)["phones"]
    add_dropout(encoder, 0.2)
    assert list(encoder.state_dict()) == names
    torch.testing.assert_close(encoder(mel, lengths)["phones"], before)
    encoder.train()
    assert not torch.allclose(encoder(mel, lengths)["phones"], encoder(mel, lengths)["phones"])


def test_what_a_part_adds_keeps_its_size_in_the_mean() -> None:
    """The remaining values are larger, so the mean over many passes is the same as without dropout."""
    torch.manual_seed(0)
    encoder, frames = Encoder(ENCODER).train(), torch.randn(1, 1, ENCODER.width)
    add_dropout(encoder, 0.5)
    part = next(module for module in encoder.modules() if isinstance(module, FeedForward))
    found = torch.stack([part(frames) for _ in range(2000)]).mean(0)
    torch.testing.assert_close(found, part.eval()(frames), atol=0.05, rtol=0.2)


RATE = 16000


def tone(hertz: float) -> torch.Tensor:
    """Return about a second of this tone, with a power of two as its length."""
    return 0.3 * torch.sin(2 * math.pi * hertz * torch.arange(16384) / RATE)


def level(samples: torch.Tensor) -> float:
    """Return the level of a tone, relative to the tone before the line."""
    return float(samples.square().mean().sqrt() / (0.3 / math.sqrt(2)))


def test_a_telephone_passes_speech_and_nothing_beyond() -> None:
    """Tones of 300 to 3400 Hz keep their level and place in time; 100 Hz and 5 kHz are gone."""
    passed = {hertz: torch.fft.irfft(telephoned(torch.fft.rfft(tone(hertz)))) for hertz in (100, 1000, 5000)}
    assert level(passed[100]) < 0.05
    assert level(passed[5000]) < 0.05
    assert 0.95 < level(passed[1000]) < 1.05
    error = passed[1000] - tone(1000)
    assert 0.002 < level(error) < 0.1  # the 8 bits


def test_a_line_passes_what_every_line_does() -> None:
    """A line always transmits 1 kHz, and never 7.5 kHz."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        assert level(torch.fft.irfft(narrowed(torch.fft.rfft(tone(1000)), generator))) > 0.95
        assert level(torch.fft.irfft(narrowed(torch.fft.rfft(tone(7500)), generator))) < 0.05


def test_companding_is_finer_for_what_is_quiet() -> None:
    """Silence and full scale stay, quiet audio has finer levels, and louder audio is clipped."""
    kept = companded(torch.tensor([0.0, 1.0, -1.0, 2.0]))
    torch.testing.assert_close(kept, torch.tensor([0.0, 1.0, -1.0, 1.0]))
    quiet, loud = torch.linspace(0, 0.01, 1000), torch.linspace(0.5, 1, 1000)
    assert (companded(quiet) - quiet).abs().max() < 0.1 * (companded(loud) - loud).abs().max()


def test_masks_keep_to_their_sizes() -> None:
    """Masks have bounds in rows of any length, and hard conditions mask more."""
    hidden = {}
    for name, conditions in CONDITIONS.items():
        generator = torch.Generator().manual_seed(0)
        lengths = torch.tensor([100, 60, 3] * 20)
        left = masked(torch.ones(60, 400, 80), lengths, conditions, generator)
        assert set(left.unique().tolist()) == {0.0, 1.0}
        bands = (left.amax(1) == 0).sum(1)
        assert 0 < bands.max() <= conditions.bands * (conditions.widest_band + 1)
        stretches = (left.amax(2) == 0).sum(1)
        longest = (lengths * 4 * conditions.longest_share).clamp(max=conditions.longest_stretch)
        assert (stretches <= conditions.stretches * (longest + 1)).all()
        hidden[name] = 1 - left.mean()
    assert hidden["hard"] > 1.3 * hidden["usual"]


def rooms(number: int) -> torch.Tensor:
    """Make some rooms, always the same ones."""
    torch.manual_seed(1)
    return synthetic_rooms(number, torch.Generator().manual_seed(1), CPU)


def test_synthetic_rooms_ring_behind_the_direct_sound() -> None:
    """The direct sound comes first, rooms differ, and each has energy 1 and decays within its time."""
    found = rooms(40)
    seconds = [ringing_seconds(room[1:].double().numpy()) for room in found]
    assert all(SHORTEST_S / 4 < each < 1.3 * LONGEST_S for each in seconds)
    assert max(seconds) > 4 * min(seconds)
    for room in found:
        torch.testing.assert_close(room.square().sum(), torch.tensor(1.0))
        assert room[0] > 0
        assert not room[1:32].any()
    shares = [float(room[0] ** 2) for room in found]
    assert min(shares) < 0.4
    assert max(shares) > 0.8


def test_high_tones_decay_faster() -> None:
    """On average over many rooms, high tones decay faster, because walls absorb them more."""
    early, late = torch.zeros(257), torch.zeros(257)
    for room in torch.nn.functional.pad(rooms(60), (0, 4000)):
        early += torch.fft.rfft(room[100:612]).abs()
        late += torch.fft.rfft(room[1600:2112]).abs()
    left = late / early
    assert left[200:].mean() < 0.7 * left[5:25].mean()


def test_a_recorded_room_is_a_second_of_energy_one(tmp_path: Path) -> None:
    """A recorded response begins with the direct sound, so that labels fit."""
    recorded = np.zeros(40000, np.int16)
    recorded[500], recorded[700], recorded[39000] = 16000, 12000, 800
    write_corpus(tmp_path, "rooms", [(Utterance("kitchen", 0, 0, "rooms", "", ""), recorded)])
    (room,) = recorded_rooms(Corpus(tmp_path, "rooms"))
    assert len(room) == 16000
    assert float(room[0]) == pytest.approx(0.8)
    assert float(room[200]) == pytest.approx(0.6)


def test_halls_alone_are_refused(tmp_path: Path) -> None:
    """A folder of halls without a room is refused."""
    falling = np.random.default_rng(1).normal(0, 3000, 64000) * 10 ** (-3 * np.arange(64000) / 64000)
    falling[0] = 30000
    write_corpus(tmp_path, "rooms", [(Utterance("church", 0, 0, "rooms", "", ""), falling.astype(np.int16))])
    with pytest.raises(CorpusError, match=r"ring for 1\.3 seconds or longer"):
        recorded_rooms(Corpus(tmp_path, "rooms"))


CENTRES = torch.from_numpy(mel_centres(80)).float()


def peak(hertz: float, factor: float) -> float:
    """Return where a resonance at this frequency is in another voice."""
    mel = torch.zeros(1, 1, 80)
    mel[0, 0, (CENTRES - hertz).abs().argmin()] = 1.0
    found = with_other_voices(mel, torch.tensor([factor]))[0, 0]
    return float((found * CENTRES).sum() / found.sum())


@pytest.mark.parametrize("hertz", [500, 1500, 3500])
@pytest.mark.parametrize("factor", [0.88, 1.12])
def test_resonances_are_moved_by_the_factor(hertz: float, factor: float) -> None:
    """All resonances of a voice move by one factor."""
    assert peak(hertz, factor) / peak(hertz, 1.0) == pytest.approx(factor, rel=0.02)


def test_the_highest_frequencies_stay_in_the_band() -> None:
    """High frequencies move less, so that none is lost."""
    for factor in (0.88, 1.12):
        assert peak(7300, factor) / peak(7300, 1.0) == pytest.approx(1.0, abs=0.04)
        flat = with_other_voices(torch.full((1, 3, 80), 0.7), torch.tensor([factor]))
        torch.testing.assert_close(flat, torch.full((1, 3, 80), 0.7))


def test_each_row_has_its_own_voice() -> None:
    """A factor of 1 changes nothing, and every row has its own factor."""
    mel = torch.randn(2, 5, 80)
    found = with_other_voices(mel, torch.tensor([1.0, 1.1]))
    torch.testing.assert_close(found[0], mel[0])
    torch.testing.assert_close(found[1:], with_other_voices(mel[1:], torch.tensor([1.1])))
    assert not torch.allclose(found[1], mel[1])
