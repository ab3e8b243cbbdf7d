"""Ways to degrade recordings: noise, recorded rooms, a telephone, wrong levels. The same seed gives the same files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
import soundfile  # type: ignore[import-untyped]
import soxr  # type: ignore[import-untyped]

from streamer.commands.accuracy.manifest import Utterance
from workshop.data.corpus import SAMPLE_RATE, Corpus, CorpusError, replacing

Audio = npt.NDArray[np.float64]
"""Samples from -1 to 1."""
Degradation = Callable[[Audio, np.random.Generator], Audio]

WAYS = ("noise-20", "noise-10", "noise-5", "telephone", "room", "far", "quiet", "clipped")
"""The names of all degradations."""

COLUMNS = ("file", "corpus", "speaker", "text")
TELEPHONE_RATE = 8000
TELEPHONE_BAND = (300, 3400)
LEAST_RINGING_SECONDS = 0.2
"""Rooms that ring shorter sound as if there were none."""


def degradations(noise: Corpus, rooms: Corpus) -> dict[str, Degradation]:
    """Return all degradations by name."""
    recordings = [noise.samples(recording) for recording in noise.utterances]
    live = [each for each in liveable_responses(rooms) if ringing_seconds(each) > LEAST_RINGING_SECONDS]
    if not live:
        raise CorpusError(f"no response in rooms rings for {LEAST_RINGING_SECONDS} to {LIVEABLE_SECONDS} seconds")
    noisy = {f"noise-{ratio}": partial(with_noise, noise=recordings, decibels=ratio) for ratio in (20, 10, 5)}
    in_room = partial(reverberated, responses=live)
    return {
        **noisy,
        "telephone": lambda audio, _: telephoned(audio),
        "room": in_room,
        "far": lambda audio, rng: with_noise(in_room(audio, rng) / 8, rng, recordings, 15),
        "quiet": lambda audio, _: audio * 10 ** (-40 / 20),
        "clipped": lambda audio, _: clipped(audio),
    }


def degrade(utterances: Sequence[Utterance], degradation: Degradation, folder: Path, name: str, seed: int) -> Path:
    """Write the files and the manifest of one degradation."""
    rows = []
    for number, utterance in enumerate(utterances):
        # The seed does not depend on the degradation, so that noise at 20 dB and at 5 dB is the same noise.
        rng = np.random.default_rng([seed, crc32(utterance.name.encode())])
        audio = degradation(utterance.samples() / 32768, rng)
        # Adding noise must not clip the audio. The values of `clipped` do not exceed 1.
        audio = audio / max(1.0, float(np.abs(audio).max()))
        levels = np.clip(np.rint(audio * 32768), -32768, 32767).astype(np.int16)
        file = f"{name}/{number:05d}.flac"
        content = io.BytesIO()
        soundfile.write(content, levels, SAMPLE_RATE, format="FLAC", subtype="PCM_16")
        with replacing(folder / file, "wb") as stream:
            stream.write(content.getvalue())
        rows.append((file, utterance.corpus, utterance.speaker or "unknown", " ".join(utterance.words)))
    with replacing(folder / f"{name}.tsv", "w") as table:
        csv.writer(table, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE).writerows([COLUMNS, *rows])
    return folder / f"{name}.tsv"


def with_noise(
    audio: Audio, rng: np.random.Generator, noise: Sequence[npt.NDArray[np.int16]], decibels: float
) -> Audio:
    """Return the audio with recorded noise that is quieter than the speech by this many dB."""
    stretch = np.zeros(0)
    while len(stretch) < len(audio):
        recording = noise[rng.integers(len(noise))] / 32768
        if recording.any():
            stretch = np.concatenate([stretch, recording / np.sqrt(np.mean(recording**2))])
    stretch = stretch[: len(audio)]
    power = np.mean(stretch**2)
    if power == 0:  # the noise begins later than the speech ends
        return audio
    background: Audio = stretch * speech_level(audio) * 10 ** (-decibels / 20) / np.sqrt(power)
    return audio + background


def reverberated(audio: Audio, rng: np.random.Generator, responses: Sequence[Audio]) -> Audio:
    """Return the audio as heard across a room, at the same level as before."""
    response = responses[rng.integers(len(responses))]
    size = len(audio) + len(response)
    echoing = np.fft.irfft(np.fft.rfft(audio, size) * np.fft.rfft(response, size), size)[: len(audio)]
    as_loud: Audio = echoing * (speech_level(audio) / max(speech_level(echoing), 1e-9))
    return as_loud


def telephoned(audio: Audio) -> Audio:
    """Return the audio through a telephone line: 300 to 3400 Hz, 8 kHz, 8-bit mu-law."""
    narrow = soxr.resample(audio, SAMPLE_RATE, TELEPHONE_RATE)
    spectrum = np.fft.rfft(narrow)
    hertz = np.fft.rfftfreq(len(narrow), 1 / TELEPHONE_RATE)
    spectrum[(hertz < TELEPHONE_BAND[0]) | (hertz > TELEPHONE_BAND[1])] = 0
    line = np.clip(np.fft.irfft(spectrum, len(narrow)), -1, 1)
    compressed = np.rint(np.sign(line) * np.log1p(255 * np.abs(line)) / np.log(256) * 127) / 127
    expanded = np.sign(compressed) * (256 ** np.abs(compressed) - 1) / 255
    wide = soxr.resample(expanded, TELEPHONE_RATE, SAMPLE_RATE)[: len(audio)]
    whole: Audio = np.pad(wide, (0, len(audio) - len(wide)))
    return whole


def clipped(audio: Audio) -> Audio:
    """Return the audio so loud that one sample in twenty is clipped."""
    loudest_kept = max(float(np.quantile(np.abs(audio), 0.95)), 1e-4)
    return (audio / loudest_kept).clip(-1, 1)


def speech_level(audio: Audio) -> float:
    """Return the root mean square of all pieces of 20 ms that are at most 30 dB below the loudest one."""
    pieces = audio[: len(audio) // 320 * 320].reshape(-1, 320)
    powers = np.mean(pieces**2, axis=1) if len(pieces) else np.array([np.mean(audio**2)])
    return float(np.sqrt(np.mean(powers[powers >= powers.max() / 1000])))


# Recorded impulse responses of rooms: what a microphone hears of a click.

Response = npt.NDArray[np.float64]
"""Samples from -1 to 1, from the direct sound on."""

LIVEABLE_SECONDS = 1.3
"""Rooms that ring longer are halls and churches, where nobody dictates."""


def liveable_responses(rooms: Corpus) -> list[Response]:
    """Return the responses of all rooms but halls and churches."""
    responses = [_from_direct_sound(rooms.samples(room) / 32768) for room in rooms.utterances]
    return [response for response in responses if ringing_seconds(response) < LIVEABLE_SECONDS]


def ringing_seconds(response: Response) -> float:
    """Return how long a room takes to fall by 60 dB, estimated from its fall between -5 and -25 dB."""
    left = np.cumsum(response[::-1] ** 2)[::-1] / np.sum(response**2)
    return 3 * float(np.argmax(left < 10**-2.5) - np.argmax(left < 10**-0.5)) / SAMPLE_RATE


def _from_direct_sound(recorded: Response) -> Response:
    # Otherwise the words would come later than they were said.
    return recorded[int(np.abs(recorded).argmax()) :]
