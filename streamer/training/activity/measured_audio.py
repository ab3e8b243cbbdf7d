"""The audio for measuring activity: sounds other than speech, and utterances with pauses, also degraded ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.random import Generator

from streamer.audio.audio_file import read_audio
from streamer.training.activity.aligned_speech import AlignedSpeech
from streamer.training.activity.background_sounds import BackgroundSounds, held_out
from streamer.training.activity.synthetic_sounds import KINDS, Audio, quantised
from streamer.training.data.corpus import SAMPLE_RATE, Corpus, Samples
from streamer.training.data.degradation import telephoned

MEASURING_SEED = 1_000_003
CLIP_SECONDS = 12
STREAM_SECONDS = 60
LEVELS_DB = (-3, -20, -40)
CONDITIONS = ("clean", "noise 20 dB", "noise 10 dB", "music 10 dB", "40 dB too quiet", "telephone")


def conversation(
    rng: Generator, speech: AlignedSpeech, background: BackgroundSounds, condition: str
) -> tuple[Samples, list[tuple[int, int]]]:
    """Return utterances with pauses, and their stretches of speech. Pauses shorter than a second do not count."""
    total = STREAM_SECONDS * SAMPLE_RATE
    spoken = np.zeros(total, np.float32)
    truth: list[tuple[int, int]] = []
    offset = int(rng.uniform(0.5, 2) * SAMPLE_RATE)
    while True:
        utterance, spans = speech.utterances[rng.integers(len(speech.utterances))]
        clip = speech.corpus.samples(utterance).astype(np.float32) / 32768
        if offset + len(clip) + SAMPLE_RATE > total:
            break
        spoken[offset : offset + len(clip)] = clip * (0.2 / max(float(np.abs(clip).max()), 1e-3))
        for start, end in spans:
            start, end = start + offset // 16, end + offset // 16
            if truth and start - truth[-1][1] < 1000:
                truth[-1] = (truth[-1][0], end)
            else:
                truth.append((start, end))
        offset += len(clip) + int(rng.uniform(1.2, 5) * SAMPLE_RATE)
    loudness = float(np.sqrt(np.mean([spoken[a * 16 : b * 16].std() ** 2 for a, b in truth])))
    if "dB" in condition and "quiet" not in condition:
        kind, decibels, _ = condition.split()
        clips = background.synthetic["music"] if kind == "music" else background.recorded
        noise = np.concatenate([clips[number] for number in rng.permutation(len(clips))])
        noise = np.resize(noise, total)
        spoken = spoken + noise * loudness * 10 ** (-float(decibels) / 20) / noise.std()
    elif condition == "telephone":
        spoken = telephoned(spoken.astype(np.float64)).astype(np.float32)
    elif condition != "clean":
        spoken = spoken / 100
    # The pauses have faint noise, because digital zeros between recordings would reveal the starts.
    return quantised(spoken + rng.standard_normal(total, np.float32) / 32768), truth


def sounds(noise: Corpus, folder: Path | None, streams: int) -> Iterator[tuple[str, list[Samples]]]:
    """Return streams of each kind of sound other than speech. The folder may have recordings of further kinds."""
    rng = np.random.default_rng(MEASURING_SEED)
    size = STREAM_SECONDS * SAMPLE_RATE
    yield "digital silence", [np.zeros(size, np.int16)] * streams
    yield "faint hiss", [quantised(rng.standard_normal(size, np.float32) * 4 / 32768) for _ in range(streams)]
    recorded = [noise.samples(piece) for piece in noise.utterances if held_out(piece.name)]
    yield "household noise, recorded", _streams(rng, [clip.astype(np.float32) for clip in recorded], streams)
    for kind, make in KINDS.items():
        clips = [
            make(np.random.default_rng((MEASURING_SEED, number)), CLIP_SECONDS * SAMPLE_RATE)
            for number in range(5 * streams)
        ]
        yield f"{kind}, synthetic", _streams(rng, clips, streams)
    for kind_folder in sorted(path for path in folder.iterdir() if path.is_dir()) if folder else ():
        clips = [read_audio(path).astype(np.float32) for path in sorted(kind_folder.iterdir())]
        yield f"{kind_folder.name}, recorded", _streams(rng, _long_clips(rng, clips, streams), streams)


def _streams(rng: Generator, clips: Sequence[Audio], streams: int) -> list[Samples]:
    """Return clips end to end, each at a random level."""
    size, recordings, number = STREAM_SECONDS * SAMPLE_RATE, [], 0
    order = rng.permutation(len(clips))
    for _ in range(streams):
        joined: list[Audio] = []
        while sum(map(len, joined)) < size:
            clip = clips[order[number % len(clips)]]
            # Of a long recording, each turn takes another piece.
            begin = int(rng.integers(max(len(clip) - CLIP_SECONDS * SAMPLE_RATE, 0) + 1))
            clip = clip[begin : begin + CLIP_SECONDS * SAMPLE_RATE]
            level = 10 ** (LEVELS_DB[number % len(LEVELS_DB)] / 20)
            joined.append(clip * np.float32(level / max(float(np.abs(clip).max()), 1e-6)))
            number += 1
        recordings.append(quantised(np.concatenate(joined)[:size]))
    return recordings


def _long_clips(rng: Generator, clips: Sequence[Audio], streams: int) -> list[Audio]:
    """Return the clips longer than 2 s. If there are none, play the clips one after another in the rhythm of typing."""
    if max(map(len, clips)) > 2 * SAMPLE_RATE:
        return [clip for clip in clips if len(clip) > 2 * SAMPLE_RATE]
    typed = []
    for _ in range(5 * streams):
        line = np.zeros((CLIP_SECONDS + 2) * SAMPLE_RATE, np.float32)
        offset = 0
        while offset < CLIP_SECONDS * SAMPLE_RATE:
            key = clips[rng.integers(len(clips))]
            line[offset : offset + len(key)] += key[: len(line) - offset]
            offset += int(min(rng.lognormal(np.log(0.14), 0.5), 2.0) * SAMPLE_RATE)
        typed.append(line[: CLIP_SECONDS * SAMPLE_RATE])
    return typed
