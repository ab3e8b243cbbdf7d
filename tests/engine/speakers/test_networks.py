"""The networks find who speaks when, and give prints in which a voice is like itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torchaudio

from streamer.engine.speakers import networks as networks_module
from streamer.engine.speakers.networks import RATE, WINDOW, VoiceNetworks, spans
from streamer.models.speaker_networks import find_speaker_networks, read_speaker_networks
from tests.engine.speakers.talks import read


@pytest.fixture(scope="module")
def networks() -> VoiceNetworks:
    library = find_speaker_networks()
    assert library is not None
    return VoiceNetworks(read_speaker_networks(library))


def test_features_are_those_that_the_network_was_trained_with() -> None:
    samples = read("quilter.ogg")[:32_000]
    expected = torchaudio.compliance.kaldi.fbank(  # as pyannote's WeSpeaker computes them
        torch.from_numpy(samples.astype(np.float32))[None],
        num_mel_bins=80,
        frame_length=25,
        frame_shift=10,
        dither=0.0,
        sample_frequency=RATE,
        window_type="hamming",
        use_energy=False,
    )
    features = networks_module._features(samples)
    assert features.shape == expected.shape
    assert np.abs(features - expected.numpy()).max() < 0.01


def test_silence_has_no_voice(networks: VoiceNetworks) -> None:
    assert networks.hear(np.zeros(WINDOW, np.int16)) == []
    assert networks.hear(np.zeros(0, np.int16)) == []
    assert networks.hear(np.ones(100, np.int16)) == []


def test_runs_cover_what_is_said_and_no_more(networks: VoiceNetworks) -> None:
    voice, second = read("quilter.ogg"), np.zeros(RATE, np.int16)
    samples = np.concatenate([second, voice, second])
    runs = networks.hear(samples)
    spoken_s = sum(run.end - run.start for run in runs) / RATE
    assert abs(runs[0].start / RATE - 1.0) < 0.6
    assert 4.0 < spoken_s < 6.0
    assert max(run.end for run in runs) <= RATE + len(voice)


def test_only_runs_with_new_sound_are_computed(networks: VoiceNetworks) -> None:
    samples = read("talk.flac")[:WINDOW]
    late = networks.hear(samples, since=8 * RATE)
    assert late
    assert all(run.end > 8 * RATE for run in late)
    every = networks.hear(samples)
    assert [(run.start, run.end) for run in every][-len(late) :] == [(run.start, run.end) for run in late]


def test_a_print_is_more_like_one_of_the_same_voice(networks: VoiceNetworks) -> None:
    woman, man = read("talk.flac"), read("quilter.ogg")

    def print_of(samples: object) -> np.ndarray:  # type: ignore[type-arg]
        longest = max(networks.hear(samples), key=lambda run: run.alone_s)  # type: ignore[arg-type]
        assert longest.print is not None
        assert abs(np.linalg.norm(longest.print) - 1) < 1e-5
        return longest.print

    first, second, other = print_of(woman[:WINDOW]), print_of(woman[WINDOW : 2 * WINDOW]), print_of(man)
    assert first @ second > 0.5
    assert first @ other < 0.2


def test_spans_join_over_short_gaps() -> None:
    flags = np.array([0, 1, 1, 0, 1, 0, 0, 0, 1], np.bool_)
    assert spans(flags) == [(1, 3), (4, 5), (8, 9)]
    assert spans(flags, 1) == [(1, 5), (8, 9)]
    assert spans(np.zeros(3, np.bool_)) == []
