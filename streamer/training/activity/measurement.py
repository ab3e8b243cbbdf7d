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
from streamer.training.activity.speech_events import ActivityModel, SpeechEvent, speech_events
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
    heard_percent: float  # pieces of 5 s in which words would be shown if the recogniser found any


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


class MeasuredDetector:
    """An activity network, in a recogniser with steps of this length."""

    def __init__(self, head: ActivityNetwork, step_ms: int) -> None:
        self._head, self._step_ms = head, step_ms

    def events(self, recordings: Sequence[Samples]) -> list[list[SpeechEvent]]:
        """Return the speech events of each recording."""
        return speech_events(self._head, recordings, self._step_ms)

    def probabilities(self, recording: Samples) -> list[float]:
        """Return the probability of speech in each frame."""
        return list[float](self._head(_energies(recording))[0, :, 0].exp().tolist())


def openings(detector: MeasuredDetector, kind: str, recordings: Sequence[Samples]) -> Openings:
    """Count how often sounds other than speech cause a start of speech."""
    false_starts = sum(event.state == "start" for events in detector.events(recordings) for event in events)
    minutes = sum(map(len, recordings)) / SAMPLE_RATE / 60
    size = PIECE_SECONDS * SAMPLE_RATE
    pieces = [recording[start : start + size] for recording in recordings for start in range(0, len(recording), size)]
    audible = sum(words_shown(detector.probabilities(piece)) for piece in pieces)
    percent = round(100 * audible / len(pieces), 1)
    return Openings(kind, round(minutes, 1), false_starts, round(60 * false_starts / minutes, 1), percent)


def words_shown(probabilities: Sequence[float]) -> bool:
    """Return whether the recogniser would show words that it found in these frames."""
    track = ActivityTracker(ActivityRule())
    track.read(probabilities)
    return track.opened


def starts(detector: MeasuredDetector, speech: AlignedSpeech, noise: Corpus, condition: str, streams: int) -> Starts:
    """Compare speech events with the alignment, under a condition."""
    rng = np.random.default_rng(MEASURING_SEED)
    background = BackgroundSounds(noise, MEASURING_SEED, 4, CLIP_SECONDS * SAMPLE_RATE, measuring=True)
    conversations = [conversation(rng, speech, background, condition) for _ in range(streams)]
    recordings, truths = zip(*conversations, strict=True)
    number = missed = unheard = before = open_behind = false = 0
    delays, errors, end_errors = [], [], []
    for recording, events, truth in zip(recordings, detector.events(recordings), truths, strict=True):
        probabilities = detector.probabilities(recording)
        opened = list(zip(events[::2], events[1::2], strict=True))  # the end of the audio is an end of speech, too
        false += sum(all(end.at_ms < a or start.at_ms > b for a, b in truth) for start, end in opened)
        for start, end in truth:
            number += 1
            unheard += not words_shown(probabilities[start // 40 : end // 40 + 5])
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
        condition=condition,
        starts=number,
        missed_starts_percent=round(100 * missed / number, 1),
        unheard_percent=round(100 * unheard / number, 1),
        open_before_percent=round(100 * before / number, 1),
        delay_ms_median=float(np.median(delay)),
        delay_ms_p90=float(np.percentile(delay, 90)),
        error_ms_median=float(np.median(error)),
        error_ms_p10=float(np.percentile(error, 10)),
        error_ms_p90=float(np.percentile(error, 90)),
        open_behind_percent=round(100 * open_behind / number, 1),
        end_error_ms_median=float(np.median(end_errors or [np.nan])),
        false_starts_an_hour=round(false / hours, 1),
    )


def _energies(samples: Samples) -> Tensor:
    whole = samples[: len(samples) // ActivityModel.frame_samples * ActivityModel.frame_samples]
    audio = torch.from_numpy(np.concatenate([np.zeros(CONTEXT, np.int16), whole])).float() / 32768
    return LogMel().energies(audio.unsqueeze(0))


def opening_table(rows: Sequence[Openings]) -> str:
    """Return a table with a line for each kind of sound."""
    lines = [
        "| sound | minutes | false starts | per hour | 5 s periods in which words would be shown |",
        "|---|---|---|---|---|",
    ]
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
