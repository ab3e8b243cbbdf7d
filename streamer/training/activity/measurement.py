"""Measures the detection of activity: false starts on other sounds, and speech events compared with the alignment.

The recogniser runs without words, so that only the events of activity are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from streamer.engine.models.activity_network import ActivityNetwork
from streamer.engine.models.activity_tracker import ActivityRule, ActivityTracker
from streamer.engine.models.features import CONTEXT, LogMel
from streamer.training.activity.aligned_speech import AlignedSpeech
from streamer.training.activity.background_sounds import BackgroundSounds
from streamer.training.activity.measured_audio import CLIP_SECONDS, MEASURING_SEED, conversation
from streamer.training.activity.speech_events import ActivityModel, speech_events
from streamer.training.data.corpus import SAMPLE_RATE, Corpus, Samples

PIECE_SECONDS = 5
# A start that is this much earlier than speech, or an end that is this much later, does not belong to that speech.
EARLIEST_MS, LATEST_MS = 500, 1200


@dataclass(frozen=True)
class Openings:
    """False starts on a kind of sound."""

    kind: str
    minutes: float
    openings: int
    an_hour: float
    heard_percent: float  # pieces of 5 s in which words would be shown if any were found


@dataclass(frozen=True)
class Starts:
    """Speech events compared with the alignment."""

    condition: str
    starts: int
    missed_starts_percent: float
    unheard_percent: float  # no part was similar enough to speech for its words to be shown
    open_before_percent: float  # activity had already begun: noise, breath, or a missed end before
    delay_ms_median: float
    delay_ms_p90: float
    error_ms_median: float
    error_ms_p10: float
    error_ms_p90: float
    open_behind_percent: float
    end_error_ms_median: float
    false_starts_an_hour: float


def openings(head: ActivityNetwork, kind: str, recordings: Sequence[Samples], step_ms: int) -> Openings:
    """Count how often sounds other than speech cause a start of speech."""
    found = sum(event.state == "start" for events in speech_events(head, recordings, step_ms) for event in events)
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


def starts(
    head: ActivityNetwork, speech: AlignedSpeech, noise: Corpus, condition: str, streams: int, step_ms: int
) -> Starts:
    """Compare speech events with the alignment, under a condition."""
    rng = np.random.default_rng(MEASURING_SEED)
    background = BackgroundSounds(noise, MEASURING_SEED, 4, CLIP_SECONDS * SAMPLE_RATE, measuring=True)
    recordings, truths = zip(
        *(conversation(rng, speech, background, condition) for _ in range(streams)), strict=True
    )  # fmt: skip
    number, missed, before, unheard, open_behind, false = 0, 0, 0, 0, 0, 0
    delays, errors, end_errors = [], [], []
    for recording, events, truth in zip(recordings, speech_events(head, recordings, step_ms), truths, strict=True):
        told = head(_energies(recording))[0, :, 0].exp().tolist()
        opened = list(zip(events[::2], events[1::2], strict=True))  # the end of the audio is an end of speech, too
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
    whole = samples[: len(samples) // ActivityModel.frame_samples * ActivityModel.frame_samples]
    audio = torch.from_numpy(np.concatenate([np.zeros(CONTEXT, np.int16), whole])).float() / 32768
    return LogMel().energies(audio.unsqueeze(0))


def opening_table(rows: Sequence[Openings]) -> str:
    """Return a table with a line for each kind of sound."""
    lines = ["| sound | minutes | false openings | an hour | 5 s that let words through |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.kind} | {row.minutes:.0f} | {row.openings} | {row.an_hour:.1f} | {row.heard_percent:.1f} % |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def start_table(rows: Sequence[Starts]) -> str:
    """Return a table with a line for each condition of speech."""
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
