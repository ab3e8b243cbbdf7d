"""Degraded recordings are worse by as much as their names say, and responses are those of rooms for people."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamer.commands.accuracy.manifest import read_manifest
from workshop.data.corpus import Corpus, Utterance, write_corpus
from workshop.data.degradation import (
    Audio,
    Response,
    clipped,
    degradations,
    degrade,
    liveable_responses,
    reverberated,
    ringing_seconds,
    speech_level,
    telephoned,
    with_noise,
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Provide noise, and a room with a reverberation of half a second."""
    rng = np.random.default_rng(0)
    falling = rng.normal(0, 1, 16000) * 10 ** (-3 * np.arange(16000) / 8000)
    falling[100] = 4
    recordings = {"noise": rng.normal(0, 900, 20000), "rooms": falling * 6000}
    for name, audio in recordings.items():
        entry = Utterance(name, 0, 0, name, "", "")
        write_corpus(tmp_path / "work", name, [(entry, np.clip(audio, -32768, 32767).astype(np.int16))])
    return tmp_path / "work"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Provide a manifest of two recordings."""
    for name, seed in (("a", 1), ("b", 2)):
        soundfile.write(tmp_path / f"{name}.wav", speech(seed), 16000, subtype="PCM_16")
    path = tmp_path / "given.tsv"
    path.write_text("file\tspeaker\tsource\ttext\na.wav\tanna\tx\tGood morning\nb.wav\tunknown\ty\tit's late\n")
    return path


def speech(seed: int) -> Audio:
    """Return half a second of silence, and then a second of audio in place of speech."""
    audio = np.random.default_rng(seed).normal(0, 0.1, 24000)
    audio[:8000] = 0
    return audio


def test_every_degradation_is_a_manifest_of_whole_files(work: Path, manifest: Path, tmp_path: Path) -> None:
    """Words, corpora and lengths stay the same; a second run gives the same bytes."""
    given = read_manifest(manifest)
    for name, degradation in degradations(Corpus(work, "noise"), Corpus(work, "rooms")).items():
        for folder in ("one", "two"):
            assert degrade(given, degradation, tmp_path / folder, name, seed=1) == tmp_path / folder / f"{name}.tsv"
        found = read_manifest(tmp_path / "one" / f"{name}.tsv")
        assert [(entry.words, entry.corpus) for entry in found] == [(entry.words, entry.corpus) for entry in given]
        for entry, before in zip(found, given, strict=True):
            assert len(entry.samples()) == len(before.samples())
            assert not np.array_equal(entry.samples(), before.samples())
            assert entry.location.path.read_bytes() == (tmp_path / "two" / entry.name).read_bytes()


def test_noise_is_as_far_below_the_speech_as_it_says() -> None:
    """The distance is measured where there is speech, not over its pauses."""
    audio, rng = speech(1), np.random.default_rng(0)
    noise = [np.random.default_rng(5).normal(0, 500, 5000).astype(np.int16), np.zeros(99, np.int16)]
    for decibels in (5, 20):
        added = with_noise(audio, rng, noise, decibels) - audio
        assert 20 * np.log10(speech_level(audio) / np.sqrt(np.mean(added**2))) == pytest.approx(decibels, abs=0.1)
    assert speech_level(audio) == pytest.approx(0.1, rel=0.05)


def test_a_room_rings_after_the_sound_but_does_not_delay_it() -> None:
    """A click stays at its place."""
    click = np.zeros(16000)
    click[1000] = 1
    heard = reverberated(click, np.random.default_rng(0), [np.array([1.0, 0.0, 0.5])])
    assert heard[1002] == pytest.approx(heard[1000] / 2)
    assert int(heard.argmax()) == 1000
    assert abs(heard[:1000]).max() < 1e-9


def test_a_telephone_lets_its_band_through_and_no_more() -> None:
    """Tones inside the band stay nearly as loud, and tones outside are gone."""
    seconds = np.arange(16000) / 16000
    for hertz, passes in ((100, False), (1000, True), (3000, True), (4500, False)):
        heard = telephoned(0.3 * np.sin(2 * np.pi * hertz * seconds))
        assert len(heard) == 16000
        level = np.sqrt(np.mean(heard[2000:-2000] ** 2)) / (0.3 / np.sqrt(2))
        assert level == pytest.approx(1, abs=0.1) if passes else level < 0.02


def test_clipping_cuts_one_sample_in_twenty() -> None:
    """One sample in twenty is clipped, and the others only become louder."""
    audio = speech(1)
    assert np.mean(np.abs(clipped(audio)) == 1) == pytest.approx(0.05, abs=0.001)


def room(seconds: float, delay: int = 0) -> Response:
    """Return a response that falls by 60 dB in this time, with a direct sound after the delay."""
    samples = np.arange(int(1.5 * 16000 * seconds))
    response = np.random.default_rng(1).normal(0, 0.2, len(samples)) * 10 ** (-3 * samples / 16000 / seconds)
    response[0] = 0.9
    return np.concatenate([np.zeros(delay), response])


@pytest.mark.parametrize("seconds", [0.3, 0.6, 1.2, 2.4])
def test_the_time_of_ringing_is_found(seconds: float) -> None:
    """The time of ringing is estimated from how fast the response falls."""
    assert ringing_seconds(room(seconds)) == pytest.approx(seconds, rel=0.15)


def test_halls_are_left_out_and_the_direct_sound_comes_first(tmp_path: Path) -> None:
    """Of a kitchen, a hall and a church, only the kitchen is left; it begins with its direct sound."""
    rooms = [
        (Utterance(name, 0, 0, "rooms", "", ""), np.rint(32767 * room(seconds, delay=300)).astype(np.int16))
        for name, seconds in (("church", 4.0), ("kitchen", 0.5), ("hall", 2.0))
    ]
    write_corpus(tmp_path, "rooms", rooms)
    (kitchen,) = liveable_responses(Corpus(tmp_path, "rooms"))
    assert len(kitchen) == 12000
    assert kitchen[0] == pytest.approx(0.9, abs=1e-3)
