"""Sounds other than speech, recorded and synthetic. Some of the recordings are used only for measuring."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from workshop.data.corpus import SAMPLE_RATE, Corpus, CorpusError, Samples

HELD_OUT = 5
"""One in this many recordings of noise is kept for measuring."""


class BackgroundSounds:
    """Recorded and synthetic sounds other than speech."""

    def __init__(self, noise: Corpus, seed: int, clips: int, samples: int, *, measuring: bool = False) -> None:
        chosen = [noise.samples(piece) for piece in noise.utterances if held_out(piece.name) == measuring]
        self.recorded = [_scaled(clip) for clip in chosen if np.abs(clip).max() > 0]
        if not self.recorded:
            raise CorpusError("there is too little prepared noise: training and measuring need some each")
        self.synthetic = {
            kind: [make(np.random.default_rng((seed, number)), samples) for number in range(clips)]
            for kind, make in KINDS.items()
        }

    def draw(self, rng: Generator, samples: int) -> Audio:
        """Draw a recorded or synthetic sound, or sometimes two at once."""
        audio = self._one(rng, samples)
        if rng.random() < 0.2:
            audio = audio + rng.uniform(0.1, 1) * self._one(rng, samples)
        return audio

    def _one(self, rng: Generator, samples: int) -> Audio:
        choice, kinds = rng.random(), list(self.synthetic)
        kind = "music" if choice < 0.6 else kinds[rng.integers(len(kinds))]
        clips = self.recorded if choice < 0.4 else self.synthetic[kind]
        clip = np.roll(clips[rng.integers(len(clips))], rng.integers(samples))
        return np.resize(clip, samples)


def held_out(name: str) -> bool:
    """Return whether a recording of noise is only for measuring. This is the same for all pieces of one source."""
    source = re.sub(r"(-[A-Z]-\d+|-\d+)?\.\w+$", "", name)
    return hashlib.sha256(source.encode()).digest()[0] % HELD_OUT == 0


def _scaled(clip: Samples) -> Audio:
    audio = clip.astype(np.float32)
    scaled: Audio = audio / max(float(np.abs(audio).max()), 1.0)
    return scaled


# Makes synthetic sounds other than speech: music, sung tones, keyboards, knocks, signals and hums.

Audio = NDArray[np.float32]

SCALES = ((0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 10), (0, 2, 4, 7, 9), (0, 3, 5, 7, 10), (0, 2, 3, 5, 7, 9, 10))
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))


def music(rng: Generator, samples: int) -> Audio:
    """Make a few bars of music: some of chords, arpeggios, bass, melody and drums, each with its own timbre."""
    beat = int(60 / rng.uniform(60, 170) * SAMPLE_RATE)
    scale, root = SCALES[rng.integers(len(SCALES))], rng.uniform(40, 58)
    # The order is fixed: that of a set differs from process to process.
    parts = [name for name in ("chords", "arpeggio", "bass", "melody", "drums") if rng.random() < 0.5] or ["chords"]
    timbres = {name: _timbre(rng) for name in parts}
    mixed = np.zeros(samples + SAMPLE_RATE, np.float32)
    for number, start in enumerate(range(0, samples, beat)):
        if number % 4 == 0:
            degree = int(rng.integers(len(scale)))
        chord = [_pitch(root + 12, scale, degree + step) for step in (0, 2, 4)]
        if "chords" in parts and (number % 4 == 0 or rng.random() < 0.2):
            for pitch in chord:
                _add(mixed, start, timbres["chords"](pitch, 4 * beat), rng.uniform(0.2, 0.5))
        if "arpeggio" in parts:
            for half in (0, 1):
                pitch = float(rng.choice(chord)) * float(rng.choice([1.0, 2.0]))
                _add(mixed, start + half * beat // 2, timbres["arpeggio"](pitch, beat // 2), rng.uniform(0.3, 0.6))
        if "bass" in parts:
            _add(mixed, start, timbres["bass"](chord[0] / 4, beat), rng.uniform(0.4, 0.8))
        if "melody" in parts and rng.random() < 0.7:
            pitch = _pitch(root + 24, scale, int(rng.integers(len(scale))))
            _add(mixed, start, timbres["melody"](pitch, int(beat * rng.choice([0.5, 1, 2]))), rng.uniform(0.4, 0.8))
        if "drums" in parts:
            _add(mixed, start, _drum(rng, "kick" if number % 2 == 0 else "snare"), rng.uniform(0.5, 0.9))
            _add(mixed, start + beat // 2, _drum(rng, "hat"), rng.uniform(0.1, 0.4))
    return _recorded(rng, mixed[:samples], wet=0.6)


def singing(rng: Generator, samples: int) -> Audio:
    """Make long sung tones with vibrato, on one or two vowels, that glide from one to the next."""
    mixed = np.zeros(samples + SAMPLE_RATE, np.float32)
    scale, root, start = SCALES[rng.integers(len(SCALES))], rng.uniform(45, 68), 0
    while start < samples:
        length = int(rng.uniform(0.4, 2.2) * SAMPLE_RATE)
        pitch = _pitch(root, scale, int(rng.integers(len(scale))))
        t = np.arange(length) / SAMPLE_RATE
        depth, rate = rng.uniform(0.004, 0.03), rng.uniform(4.5, 6.8)
        wave = np.sin(2 * np.pi * rate * t) * np.minimum(t / 0.3, 1)
        glide = 1 + rng.normal(0, 0.03) * np.exp(-t / 0.06)
        phase = 2 * np.pi * np.cumsum(pitch * glide * (1 + depth * wave)) / SAMPLE_RATE
        formants = np.array(VOWELS[rng.integers(len(VOWELS))]) * rng.uniform(0.85, 1.2)
        heights = [_resonance(k * pitch, formants) / k for k in range(1, max(2, min(30, int(7000 / pitch))))]
        tone = _harmonics(phase, np.array(heights)) * _envelope(length, rng.uniform(0.03, 0.2), None)
        _add(mixed, start, tone, rng.uniform(0.4, 1))
        start += length + (int(rng.uniform(0, 0.8) * SAMPLE_RATE) if rng.random() < 0.3 else 0)
    return _recorded(rng, mixed[:samples], wet=0.7)


def keyboard(rng: Generator, samples: int) -> Audio:
    """Make the sound of typing: presses and releases in bursts, with a slightly different sound for each key."""
    mixed = np.zeros(samples + SAMPLE_RATE, np.float32)
    tones, thump = rng.uniform(900, 6500, 3), rng.uniform(120, 450)
    decay, sharp, median = rng.uniform(0.002, 0.015), rng.uniform(0.2, 1), rng.uniform(0.09, 0.25)
    start = int(rng.uniform(0, 0.5) * SAMPLE_RATE)
    while start < samples:
        for delay, level in ((0.0, 1.0), (rng.uniform(0.05, 0.13), rng.uniform(0.2, 0.7))):
            struck = _struck(rng, tones * rng.uniform(0.9, 1.1, 3), decay, sharp)
            struck[:1600] += _struck(rng, np.array([thump]), 0.02, 0.0)[:1600] * rng.uniform(0.1, 1.5)
            _add(mixed, start + int(delay * SAMPLE_RATE), struck, level * rng.uniform(0.5, 1))
        gap = rng.lognormal(np.log(median), 0.45) if rng.random() < 0.93 else rng.uniform(0.5, 2.5)
        start += int(gap * SAMPLE_RATE)
    return _recorded(rng, mixed[:samples], wet=0.5)


def knocks(rng: Generator, samples: int) -> Audio:
    """Make groups of knocks on doors and tables, mouse clicks and steps."""
    mixed = np.zeros(samples + SAMPLE_RATE, np.float32)
    start = int(rng.uniform(0, 2) * SAMPLE_RATE)
    while start < samples:
        low, high = [(80, 900), (1500, 6000), (50, 300)][rng.integers(3)]
        tones, decay, sharp = rng.uniform(low, high, 4), rng.uniform(0.004, 0.07), rng.uniform(0, 0.6)
        gap = rng.uniform(0.1, 0.6)
        for _ in range(int(rng.integers(1, 7))):
            _add(mixed, start, _struck(rng, tones * rng.uniform(0.97, 1.03, 4), decay, sharp), rng.uniform(0.4, 1))
            start += int(gap * rng.uniform(0.85, 1.15) * SAMPLE_RATE)
        start += int(rng.uniform(0.3, 3) * SAMPLE_RATE)
    return _recorded(rng, mixed[:samples], wet=0.6)


def signals(rng: Generator, samples: int) -> Audio:
    """Make beeps, ringing, sirens and sweeps."""
    mixed = np.zeros(samples + SAMPLE_RATE, np.float32)
    on, off = rng.uniform(0.05, 2), rng.uniform(0.05, 3)
    pitches = np.exp(rng.uniform(np.log(250), np.log(3500), rng.integers(1, 4)))
    bend, rate = rng.choice([0.0, 0.0, rng.uniform(0.05, 0.4)]), rng.uniform(0.3, 12)
    start = int(rng.uniform(0, 1) * SAMPLE_RATE)
    while start < samples:
        t = np.arange(int(on * SAMPLE_RATE)) / SAMPLE_RATE
        for pitch in pitches:
            phase = 2 * np.pi * np.cumsum(pitch * (1 + bend * np.sin(2 * np.pi * rate * t))) / SAMPLE_RATE
            heights = np.array([1.0, *rng.uniform(0, 0.4, 3)])
            _add(mixed, start, _harmonics(phase, heights) * _envelope(len(t), 0.005, None), 0.4)
        start += int((on + off) * SAMPLE_RATE)
    return _recorded(rng, mixed[:samples], wet=0.4)


def hum(rng: Generator, samples: int) -> Audio:
    """Make fans, wind, mains hum and rustling: coloured noise, steady or with a level that changes like syllables."""
    size = 1 << (samples - 1).bit_length()
    hertz = np.fft.rfftfreq(size, 1 / SAMPLE_RATE)
    slope = (hertz + 30) ** -rng.uniform(0, 1.6)
    for centre in np.exp(rng.uniform(np.log(80), np.log(6000), rng.integers(0, 4))):
        slope *= 1 + rng.uniform(0, 6) * np.exp(-(((hertz - centre) / (centre * rng.uniform(0.05, 0.5))) ** 2))
    noise = np.fft.irfft(np.fft.rfft(rng.standard_normal(size)) * slope)[:samples]
    noise /= np.abs(noise).max()
    t = np.arange(samples) / SAMPLE_RATE
    if rng.random() < 0.5:
        knots = int(samples / SAMPLE_RATE * rng.uniform(0.3, 9)) + 2
        noise *= np.interp(np.linspace(0, knots - 1, samples), np.arange(knots), rng.random(knots) ** 2)
    if rng.random() < 0.3:
        noise += rng.uniform(0.1, 0.5) * _harmonics(2 * np.pi * rng.choice([50, 60, 100, 120]) * t, rng.random(8))
    return _recorded(rng, noise.astype(np.float32), wet=0.0)


KINDS: dict[str, Callable[[Generator, int], Audio]] = {
    "music": music,
    "singing": singing,
    "keyboard": keyboard,
    "knocks": knocks,
    "signals": signals,
    "hum": hum,
}


def reverberated(rng: Generator, audio: Audio, seconds: float) -> Audio:
    """Return the audio in a room with this reverberation time."""
    length = int(seconds * SAMPLE_RATE)
    tail = rng.standard_normal(length) * np.exp(-6.9 * np.arange(length) / length)
    tail *= rng.uniform(0.05, 0.5) / np.sqrt((tail**2).sum())
    tail[0] += 1
    size = 1 << (len(audio) + length - 1).bit_length()
    wet: Audio = np.fft.irfft(np.fft.rfft(audio, size) * np.fft.rfft(tail, size))[: len(audio)].astype(np.float32)
    return wet


def banded(audio: Audio, lowest: float, highest: float) -> Audio:
    """Return the audio through a line or a small loudspeaker."""
    size = 1 << (len(audio) - 1).bit_length()
    hertz = np.fft.rfftfreq(size, 1 / SAMPLE_RATE)
    slope = 1 / (1 + (lowest / np.maximum(hertz, 1)) ** 6) / (1 + (hertz / highest) ** 10)
    passed: Audio = np.fft.irfft(np.fft.rfft(audio, size) * slope)[: len(audio)].astype(np.float32)
    return passed


def quantised(audio: Audio) -> Samples:
    """Return the audio as 16-bit samples."""
    rounded: Samples = np.clip(np.rint(audio * 32768), -32768, 32767).astype(np.int16)
    return rounded


def _timbre(rng: Generator) -> Callable[[float, int], Audio]:
    """Draw an instrument: a function of pitch and length."""
    heights = np.arange(1, 16) ** -rng.uniform(0.5, 2.5) * rng.lognormal(0, 0.6, 15)
    attack, decay = rng.choice([0.003, 0.01, 0.05, 0.2]), (None, 0.15, 0.4, 1.2)[rng.integers(4)]
    depth, rate = rng.choice([0.0, 0.0, 0.003, 0.012]), rng.uniform(4, 7)
    swing, index = rng.choice([0.5, 1.0, 1.41, 2.0, 3.5]), rng.uniform(0.5, 5)
    frequency_modulated = rng.random() < 0.3

    def play(pitch: float, length: int) -> Audio:
        t = np.arange(length) / SAMPLE_RATE
        phase = 2 * np.pi * pitch * (t - depth / (2 * np.pi * rate) * np.cos(2 * np.pi * rate * t))
        envelope = _envelope(length, float(attack), decay)
        if frequency_modulated:
            tone: Audio = (np.sin(phase + index * envelope * np.sin(swing * phase)) * envelope).astype(np.float32)
            return tone
        return _harmonics(phase, heights[: max(1, int(7500 / pitch))]) * envelope

    return play


def _drum(rng: Generator, kind: str) -> Audio:
    t = np.arange(SAMPLE_RATE // 4) / SAMPLE_RATE
    noise = rng.standard_normal(len(t))
    if kind == "kick":
        hit = np.sin(2 * np.pi * (50 * t - 4 * np.exp(-t / 0.03))) * np.exp(-t / 0.09)
    elif kind == "snare":
        hit = (0.5 * noise + 0.5 * np.sin(2 * np.pi * 190 * t)) * np.exp(-t / 0.06)
    else:
        hit = np.diff(noise, prepend=0.0) * 0.5 * np.exp(-t / rng.uniform(0.01, 0.06))
    return hit.astype(np.float32)


def _struck(rng: Generator, tones: NDArray[np.float64], decay: float, sharp: float) -> Audio:
    """Make the sound of a hit on something hard: tones that ring for a moment, with a share of noise."""
    t = np.arange(int(0.3 * SAMPLE_RATE)) / SAMPLE_RATE
    ringing = sum(np.sin(2 * np.pi * tone * t + rng.uniform(0, 6)) * rng.uniform(0.3, 1) for tone in tones)
    noise = rng.standard_normal(len(t)) * np.exp(-t / (decay * 0.5))
    hit = ((1 - sharp) * ringing * np.exp(-t / decay) + sharp * noise).astype(np.float32)
    return hit / max(float(np.abs(hit).max()), 1e-6)


def _harmonics(phase: NDArray[np.float64], heights: NDArray[np.float64]) -> Audio:
    # sin(k x) is computed from the two harmonics before it, because calls of sin would take most of the time.
    phase = phase.astype(np.float32)
    before, current, twice = np.zeros_like(phase), np.sin(phase), 2 * np.cos(phase)
    total = heights[0] * current
    for height in heights[1:]:
        before, current = current, twice * current - before
        total = total + height * current
    scaled: Audio = (total / np.abs(heights).sum()).astype(np.float32)
    return scaled


def _envelope(length: int, attack: float, decay: float | None) -> Audio:
    t = np.arange(length, dtype=np.float32) / SAMPLE_RATE
    fall = np.exp(-t / decay) if decay else np.ones_like(t)
    release = np.minimum((length / SAMPLE_RATE - t) / 0.02, 1)
    shaped: Audio = (np.minimum(t / attack, 1) * fall * release).astype(np.float32)
    return shaped


def _resonance(hertz: float, formants: NDArray[np.float64]) -> float:
    return float((1 / (1 + ((hertz - formants) / (60 + formants * 0.05)) ** 2) * (1, 0.6, 0.3)).sum()) + 0.01


def _pitch(root: float, scale: tuple[int, ...], degree: int) -> float:
    octave, step = divmod(degree, len(scale))
    return float(440 * 2 ** ((root + 12 * octave + scale[step] - 69) / 12))


def _add(mixed: Audio, start: int, audio: Audio, level: float) -> None:
    end = min(start + len(audio), len(mixed))
    if start < end:
        mixed[start:end] += level * audio[: end - start]


def _recorded(rng: Generator, audio: Audio, wet: float) -> Audio:
    """Return the audio as a microphone may record it, with a peak of 1."""
    if rng.random() < wet:
        audio = reverberated(rng, audio, rng.uniform(0.1, 1.4))
    if rng.random() < 0.3:
        audio = banded(audio, rng.uniform(20, 400), rng.uniform(2500, 7500))
    if rng.random() < 0.2:
        audio = np.tanh(rng.uniform(1, 4) * audio / max(float(np.abs(audio).max()), 1e-6))
    return (audio / max(float(np.abs(audio).max()), 1e-6)).astype(np.float32)
