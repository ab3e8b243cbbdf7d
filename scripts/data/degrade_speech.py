"""Make recordings worse, each in several ways, to see what the recogniser is bad at.

    python scripts/data/degrade_speech.py speech/dev.tsv --work PREPARED --to DEGRADED
    python -m streamer evaluate DEGRADED/telephone.tsv

DEGRADED gets a folder of FLAC files and a manifest (file, corpus, speaker, text) for every way. Noise and rooms are
those of the prepared data. The same seed gives the same files, and all levels of noise use the same noise.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
import soundfile  # type: ignore[import-untyped]
import soxr  # type: ignore[import-untyped]

from streamer.audio.recording_check import AudioError
from streamer.evaluate.manifest import ManifestError, Utterance, read_manifest, select_utterances
from streamer.training.data.corpus import SAMPLE_RATE, Corpus, CorpusError, replacing

Sound = npt.NDArray[np.float64]
"""Samples from -1 to 1."""
Way = Callable[[Sound, np.random.Generator], Sound]

COLUMNS = ("file", "corpus", "speaker", "text")
TELEPHONE_RATE = 8000
TELEPHONE_BAND = (300, 3400)
LIVEABLE_SECONDS = 1.3
"""Rooms that ring longer are halls and churches."""


def main() -> int:
    """Degrade a manifest's recordings; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="prepared data, for its noise and rooms")
    parser.add_argument("--to", type=Path, required=True, help="folder for the degraded recordings")
    parser.add_argument("--ways", nargs="+", metavar="WAY", help="only these (default: all)")
    parser.add_argument("--limit", type=int, help="so many recordings, spread over the corpora (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        known = ways(Corpus(options.work, "noise"), Corpus(options.work, "rooms"))
        for name in options.ways or ():
            if name not in known:
                raise CorpusError(f"there is no way {name!r}; there are {', '.join(known)}")
        utterances = select_utterances(read_manifest(options.manifest), limit=options.limit)
        for name in options.ways or known:
            print(degrade(utterances, known[name], options.to, name, options.seed), flush=True)
    except (AudioError, CorpusError, ManifestError) as error:
        print(f"degrade_speech: {error}", file=sys.stderr)
        return 1
    return 0


def ways(noise: Corpus, rooms: Corpus) -> dict[str, Way]:
    """All ways by name."""
    sounds = [noise.samples(recording) for recording in noise.utterances]
    responses = [_response(rooms.samples(room) / 32768) for room in rooms.utterances]
    live = [response for response in responses if 0.2 < ringing_seconds(response) < LIVEABLE_SECONDS]
    if not live:
        raise CorpusError(f"no response in rooms rings for 0.2 to {LIVEABLE_SECONDS} seconds")
    noisy = {f"noise-{ratio}": partial(with_noise, noise=sounds, decibels=ratio) for ratio in (20, 10, 5)}
    in_room = partial(reverberated, responses=live)
    return {
        **noisy,
        "telephone": lambda sound, _: telephoned(sound),
        "room": in_room,
        "far": lambda sound, rng: with_noise(in_room(sound, rng) / 8, rng, sounds, 15),
        "quiet": lambda sound, _: sound * 10 ** (-40 / 20),
        "clipped": lambda sound, _: clipped(sound),
    }  # fmt: skip


def degrade(utterances: Sequence[Utterance], way: Way, folder: Path, name: str, seed: int) -> Path:
    """Write one way's files and manifest."""
    rows = []
    for number, utterance in enumerate(utterances):
        # Not by the way's name: noise at 20 dB and at 5 dB is the same noise.
        rng = np.random.default_rng([seed, crc32(utterance.name.encode())])
        sound = way(utterance.samples() / 32768, rng)
        # Noise must not clip what it is added to; `clipped` does not go beyond 1.
        sound = sound / max(1.0, float(np.abs(sound).max()))
        levels = np.clip(np.rint(sound * 32768), -32768, 32767).astype(np.int16)
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
    sound: Sound, rng: np.random.Generator, noise: Sequence[npt.NDArray[np.int16]], decibels: float
) -> Sound:
    """With recorded noise so far below the speech."""
    stretch = np.zeros(0)
    while len(stretch) < len(sound):
        recording = noise[rng.integers(len(noise))] / 32768
        if recording.any():
            stretch = np.concatenate([stretch, recording / np.sqrt(np.mean(recording**2))])
    stretch = stretch[: len(sound)]
    power = np.mean(stretch**2)
    if power == 0:  # the noise begins later than the speech ends
        return sound
    background: Sound = stretch * speech_level(sound) * 10 ** (-decibels / 20) / np.sqrt(power)
    return sound + background


def reverberated(sound: Sound, rng: np.random.Generator, responses: Sequence[Sound]) -> Sound:
    """As heard across a room, at the level of before."""
    response = responses[rng.integers(len(responses))]
    size = len(sound) + len(response)
    heard = np.fft.irfft(np.fft.rfft(sound, size) * np.fft.rfft(response, size), size)[: len(sound)]
    as_loud: Sound = heard * (speech_level(sound) / max(speech_level(heard), 1e-9))
    return as_loud


def telephoned(sound: Sound) -> Sound:
    """Through a telephone line: 300 to 3400 Hz, 8 kHz, 8 bit mu-law."""
    narrow = soxr.resample(sound, SAMPLE_RATE, TELEPHONE_RATE)
    spectrum = np.fft.rfft(narrow)
    hertz = np.fft.rfftfreq(len(narrow), 1 / TELEPHONE_RATE)
    spectrum[(hertz < TELEPHONE_BAND[0]) | (hertz > TELEPHONE_BAND[1])] = 0
    line = np.clip(np.fft.irfft(spectrum, len(narrow)), -1, 1)
    compressed = np.rint(np.sign(line) * np.log1p(255 * np.abs(line)) / np.log(256) * 127) / 127
    heard = np.sign(compressed) * (256 ** np.abs(compressed) - 1) / 255
    wide = soxr.resample(heard, TELEPHONE_RATE, SAMPLE_RATE)[: len(sound)]
    whole: Sound = np.pad(wide, (0, len(sound) - len(wide)))
    return whole


def clipped(sound: Sound) -> Sound:
    """So loud that one sample in twenty is cut off."""
    loudest_kept = max(float(np.quantile(np.abs(sound), 0.95)), 1e-4)
    return (sound / loudest_kept).clip(-1, 1)


def speech_level(sound: Sound) -> float:
    """The root mean square of the loud parts: of 20 ms pieces at most 30 dB below the loudest."""
    pieces = sound[: len(sound) // 320 * 320].reshape(-1, 320)
    powers = np.mean(pieces**2, axis=1) if len(pieces) else np.array([np.mean(sound**2)])
    return float(np.sqrt(np.mean(powers[powers >= powers.max() / 1000])))


def ringing_seconds(response: Sound) -> float:
    """How long a room takes to fall by 60 dB, from its fall between -5 and -25 dB."""
    left = np.cumsum(response[::-1] ** 2)[::-1] / np.sum(response**2)
    return 3 * float(np.argmax(left < 10**-2.5) - np.argmax(left < 10**-0.5)) / SAMPLE_RATE


def _response(recorded: Sound) -> Sound:
    # From the direct sound on, or words would come later than they were said.
    return recorded[int(np.abs(recorded).argmax()) :]


if __name__ == "__main__":
    sys.exit(main())
