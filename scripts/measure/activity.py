"""Measure speech start and end events: false openings on sounds that are no speech, missed and late starts on dev.

    python scripts/measure/activity.py --work PREPARED --bundle asr_repo/streaming_asr/1 [--sounds FOLDER] [--json FILE]

The recogniser runs with the bundle's activity head and no words, so what is measured are the events of activity alone.
The noise is what scripts/train/train_activity.py leaves out, synthetic sounds have other seeds, and speech is dev with
pauses of 1.2 to 5 s. FOLDER may hold recordings of more sounds in a folder for each kind; those shorter than 2 s are
strung together as keys are typed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from streamer.audio.audio_file import read_audio
from streamer.engine.models.acoustic_model import BundleError, read_activity
from streamer.engine.models.activity_network import ActivityNetwork
from streamer.engine.models.activity_tracker import ActivityRule, ActivityTracker
from streamer.engine.models.features import CONTEXT, LogMel
from streamer.training.activity.listening import Ears, listen
from streamer.training.activity.scenes import Background, Voices, held_out, quantised
from streamer.training.activity.sounds import KINDS, Dice, Sound
from streamer.training.data.corpus import SAMPLE_RATE, Corpus, CorpusError, Samples

MADE_SEED = 1_000_003
CLIP_SECONDS = 12
STREAM_SECONDS = 60
PIECE_SECONDS = 5
LEVELS_DB = (-3, -20, -40)
CONDITIONS = ("clean", "noise 20 dB", "noise 10 dB", "music 10 dB", "40 dB too quiet")
# A start that lies so much before speech, or an end so much behind it, is that of something else.
EARLIEST_MS, LATEST_MS = 500, 1200


@dataclass(frozen=True)
class Openings:
    """False starts on a kind of sound."""

    kind: str
    minutes: float
    openings: int
    an_hour: float
    heard_percent: float  # of the pieces of 5 s: words found in these would be shown


@dataclass(frozen=True)
class Starts:
    """Speech events beside the alignment."""

    condition: str
    starts: int
    missed_starts_percent: float
    unheard_percent: float  # nothing of the speech looked enough like it for its words to be shown
    open_before_percent: float  # by noise, breath or because the end before was not noticed
    delay_ms_median: float
    delay_ms_p90: float
    error_ms_median: float
    error_ms_p10: float
    error_ms_p90: float
    open_behind_percent: float
    end_error_ms_median: float
    false_starts_an_hour: float


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of prepared and aligned speech")
    parser.add_argument("--bundle", type=Path, required=True, help="folder with activity.pt")
    parser.add_argument("--sounds", type=Path, help="folder of recorded sounds, a folder for each kind")
    parser.add_argument("--minutes", type=float, default=9.0, help="of each kind of sound and condition of speech")
    parser.add_argument("--step-ms", type=int, choices=Ears.step_ms, default=320)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        head = read_activity(options.bundle)
        if head is None:
            raise BundleError(f"{options.bundle} has no activity.pt: run scripts/train/train_activity.py first")
        head.eval().requires_grad_(False)
        noise, voices = Corpus(options.work, "noise"), Voices.read(options.work, "dev")
        streams = max(1, round(options.minutes * 60 / STREAM_SECONDS))
        quiet = [
            openings(head, kind, sound, options.step_ms) for kind, sound in _sounds(noise, options.sounds, streams)
        ]
        print(_opening_table(quiet), flush=True)
        spoken = [starts(head, voices, noise, condition, streams, options.step_ms) for condition in CONDITIONS]
        print(_start_table(spoken))
    except (BundleError, CorpusError, OSError) as error:
        print(f"measure_activity: {error}", file=sys.stderr)
        return 1
    if options.json:
        figures = {"openings": [asdict(row) for row in quiet], "starts": [asdict(row) for row in spoken]}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def openings(head: ActivityNetwork, kind: str, recordings: Sequence[Samples], step_ms: int) -> Openings:
    """How often sounds that are no speech open."""
    found = sum(event.state == "start" for events in listen(head, recordings, step_ms) for event in events)
    minutes = sum(map(len, recordings)) / SAMPLE_RATE / 60
    size = PIECE_SECONDS * SAMPLE_RATE
    pieces = [recording[start : start + size] for recording in recordings for start in range(0, len(recording), size)]
    heard = sum(heard_in(head(_energies(piece))[0, :, 0].exp().tolist()) for piece in pieces)
    percent = round(100 * heard / len(pieces), 1)
    return Openings(kind, round(minutes, 1), found, round(60 * found / minutes, 1), percent)


def heard_in(probabilities: Sequence[float]) -> bool:
    """Whether words found there would be shown."""
    track = ActivityTracker(ActivityRule())
    track.read(probabilities)
    return track.opened


def starts(head: ActivityNetwork, voices: Voices, noise: Corpus, condition: str, streams: int, step_ms: int) -> Starts:
    """How speech events lie beside the alignment, under a condition."""
    dice = np.random.default_rng(MADE_SEED)
    background = Background(noise, MADE_SEED, 4, CLIP_SECONDS * SAMPLE_RATE, measuring=True)
    recordings, truths = zip(
        *(_talk(dice, voices, background, condition) for _ in range(streams)), strict=True
    )  # fmt: skip
    number, missed, before, unheard, open_behind, false = 0, 0, 0, 0, 0, 0
    delays, errors, end_errors = [], [], []
    for recording, events, truth in zip(recordings, listen(head, recordings, step_ms), truths, strict=True):
        told = head(_energies(recording))[0, :, 0].exp().tolist()
        opened = list(zip(events[::2], events[1::2], strict=True))  # the end of the audio closes, too
        false += sum(all(end.at_ms < a or start.at_ms > b for a, b in truth) for start, end in opened)
        for start, end in truth:
            number += 1
            unheard += not heard_in(told[start // 40 : end // 40 + 5])
            over = [pair for pair in opened if pair[0].at_ms <= end and pair[1].at_ms >= start]
            if not over:
                missed += 1
                continue
            if over[0][0].at_ms < start - EARLIEST_MS:
                before += 1
            else:
                delays.append(over[0][0].heard_ms - start)
                errors.append(over[0][0].at_ms - start)
            if over[-1][1].at_ms > end + LATEST_MS:
                open_behind += 1
            else:
                end_errors.append(over[-1][1].at_ms - end)
    hours = sum(map(len, recordings)) / SAMPLE_RATE / 3600
    delay, error = np.array(delays or [np.nan]), np.array(errors or [np.nan])
    return Starts(
        condition, number, round(100 * missed / number, 1), round(100 * unheard / number, 1),
        round(100 * before / number, 1),
        float(np.median(delay)), float(np.percentile(delay, 90)),
        float(np.median(error)), float(np.percentile(error, 10)), float(np.percentile(error, 90)),
        round(100 * open_behind / number, 1), float(np.median(end_errors or [np.nan])), round(false / hours, 1),
    )  # fmt: skip


def _energies(samples: Samples) -> Tensor:
    whole = samples[: len(samples) // Ears.frame_samples * Ears.frame_samples]
    audio = torch.from_numpy(np.concatenate([np.zeros(CONTEXT, np.int16), whole])).float() / 32768
    return LogMel().energies(audio.unsqueeze(0))


def _talk(dice: Dice, voices: Voices, background: Background, condition: str) -> tuple[Samples, list[tuple[int, int]]]:
    """Utterances with pauses, and where speech lies in them; pauses below a second are not counted as such."""
    total = STREAM_SECONDS * SAMPLE_RATE
    spoken = np.zeros(total, np.float32)
    truth: list[tuple[int, int]] = []
    place = int(dice.uniform(0.5, 2) * SAMPLE_RATE)
    while True:
        utterance, spans = voices.aligned[dice.integers(len(voices.aligned))]
        clip = voices.corpus.samples(utterance).astype(np.float32) / 32768
        if place + len(clip) + SAMPLE_RATE > total:
            break
        # Silences of digital zeros between recordings would give starts away: a recording's own fade in and out.
        spoken[place : place + len(clip)] = clip * (0.2 / max(float(np.abs(clip).max()), 1e-3))
        for start, end in spans:
            start, end = start + place // 16, end + place // 16
            if truth and start - truth[-1][1] < 1000:
                truth[-1] = (truth[-1][0], end)
            else:
                truth.append((start, end))
        place += len(clip) + int(dice.uniform(1.2, 5) * SAMPLE_RATE)
    loudness = float(np.sqrt(np.mean([spoken[a * 16 : b * 16].std() ** 2 for a, b in truth])))
    if "dB" in condition and "quiet" not in condition:
        kind, decibels, _ = condition.split()
        clips = background.made["music"] if kind == "music" else background.recorded
        noise = np.concatenate([clips[number] for number in dice.permutation(len(clips))])
        noise = np.resize(noise, total)
        spoken = spoken + noise * loudness * 10 ** (-float(decibels) / 20) / noise.std()
    elif condition != "clean":
        spoken = spoken / 100
    return quantised(spoken + dice.standard_normal(total, np.float32) / 32768), truth


def _sounds(noise: Corpus, folder: Path | None, streams: int) -> Iterator[tuple[str, list[Samples]]]:
    dice = np.random.default_rng(MADE_SEED)
    size = STREAM_SECONDS * SAMPLE_RATE
    yield "digital silence", [np.zeros(size, np.int16)] * streams
    yield "faint hiss", [quantised(dice.standard_normal(size, np.float32) * 4 / 32768) for _ in range(streams)]
    recorded = [noise.samples(piece) for piece in noise.utterances if held_out(piece.name)]
    yield "household noise, recorded", _streams(dice, [clip.astype(np.float32) for clip in recorded], streams)
    for kind, make in KINDS.items():
        clips = [
            make(np.random.default_rng((MADE_SEED, number)), CLIP_SECONDS * SAMPLE_RATE)
            for number in range(5 * streams)
        ]
        yield f"{kind}, synthetic", _streams(dice, clips, streams)
    for kind_folder in sorted(path for path in folder.iterdir() if path.is_dir()) if folder else ():
        clips = [read_audio(path).astype(np.float32) for path in sorted(kind_folder.iterdir())]
        yield f"{kind_folder.name}, recorded", _streams(dice, _strung(dice, clips, streams), streams)


def _streams(dice: Dice, clips: Sequence[Sound], streams: int) -> list[Samples]:
    """Clips end to end, each at some level."""
    size, found, number = STREAM_SECONDS * SAMPLE_RATE, [], 0
    order = dice.permutation(len(clips))
    for _ in range(streams):
        joined: list[Sound] = []
        while sum(map(len, joined)) < size:
            clip = clips[order[number % len(clips)]]
            # Long recordings: another piece at each turn.
            begin = int(dice.integers(max(len(clip) - CLIP_SECONDS * SAMPLE_RATE, 0) + 1))
            clip = clip[begin : begin + CLIP_SECONDS * SAMPLE_RATE]
            level = 10 ** (LEVELS_DB[number % len(LEVELS_DB)] / 20)
            joined.append(clip * np.float32(level / max(float(np.abs(clip).max()), 1e-6)))
            number += 1
        found.append(quantised(np.concatenate(joined)[:size]))
    return found


def _strung(dice: Dice, clips: Sequence[Sound], streams: int) -> list[Sound]:
    if max(map(len, clips)) > 2 * SAMPLE_RATE:
        return [clip for clip in clips if len(clip) > 2 * SAMPLE_RATE]
    typed = []
    for _ in range(5 * streams):
        line = np.zeros((CLIP_SECONDS + 2) * SAMPLE_RATE, np.float32)
        place = 0
        while place < CLIP_SECONDS * SAMPLE_RATE:
            key = clips[dice.integers(len(clips))]
            line[place : place + len(key)] += key[: len(line) - place]
            place += int(min(dice.lognormal(np.log(0.14), 0.5), 2.0) * SAMPLE_RATE)
        typed.append(line[: CLIP_SECONDS * SAMPLE_RATE])
    return typed


def _opening_table(rows: Sequence[Openings]) -> str:
    lines = ["| sound | minutes | false openings | an hour | 5 s that let words through |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.kind} | {row.minutes:.0f} | {row.openings} | {row.an_hour:.1f} | {row.heard_percent:.1f} % |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _start_table(rows: Sequence[Starts]) -> str:
    lines = [
        "| dev speech | starts | missed | words lost | open before | delay median / 90 % "
        "| `at_ms` off, median (10 % to 90 %) | open behind | end off, median | false starts an hour |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.condition} | {row.starts} | {row.missed_starts_percent:.1f} % | {row.unheard_percent:.1f} % "
        f"| {row.open_before_percent:.1f} % "
        f"| {row.delay_ms_median:.0f} / {row.delay_ms_p90:.0f} ms "
        f"| {row.error_ms_median:+.0f} ({row.error_ms_p10:+.0f} to {row.error_ms_p90:+.0f}) ms "
        f"| {row.open_behind_percent:.1f} % | {row.end_error_ms_median:+.0f} ms | {row.false_starts_an_hour:.1f} |"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
