"""Measures the detection of activity: false starts on other sounds, and speech events compared with the alignment.

The recogniser runs without words, so that only the events of activity are measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from streamer.audio.audio_file import read_audio
from streamer.base.events import Speech
from streamer.engine.acoustics.activity import ActivityRule, ActivityTracker
from streamer.engine.acoustics.encoder_config import SUBSAMPLING
from streamer.engine.acoustics.speech_detector import SpeechDetector
from streamer.engine.acoustics.streaming_model import ACTIVITY, Emissions, ModelState
from streamer.engine.endpointing import EndpointRule
from streamer.engine.networks.activity_network import ActivityNetwork
from streamer.engine.networks.host_arrays import host_array, network_detector
from streamer.engine.networks.log_mel import LogMelNetwork
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search.search import Hotword, Hypothesis, LikelyWords
from streamer.engine.segment_audio import piece_samples
from streamer.engine.stream_options import StreamOptions
from streamer.engine.waiting import Work
from workshop.activity.examples import AlignedSpeech
from workshop.activity.sounds import KINDS, Audio, BackgroundSounds, held_out, quantised
from workshop.data.corpus import SAMPLE_RATE, Corpus, Samples
from workshop.data.degradation import telephoned

PIECE_SECONDS = 5
# A start that is this much earlier than speech, or an end that is this much later, does not belong to that speech.
EARLIEST_MS, LATEST_MS = 500, 1200
LATE_MS = 200
"""How much later than speech the network may hear it."""


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
    """An activity network, in a recogniser with frames and steps of these lengths."""

    def __init__(self, head: ActivityNetwork, frame_samples: int, step_ms: int) -> None:
        self._model, self._step_ms = ActivityModel(head, frame_samples, (step_ms,)), step_ms
        self.rule = ActivityRule(frame_ms=1000 * frame_samples / SAMPLE_RATE)

    def events(self, recordings: Sequence[Samples]) -> list[list[SpeechEvent]]:
        """Return the speech events of each recording."""
        return speech_events(self._model, recordings, self._step_ms)

    def probabilities(self, recording: Samples) -> list[float]:
        """Return the probability of speech in each frame."""
        return self._model.probabilities(recording)

    def shows_words(self, probabilities: Sequence[float]) -> bool:
        """Return whether the recogniser would show words that it found in these frames."""
        track = ActivityTracker(self.rule)
        track.read(probabilities)
        return track.opened


def openings(detector: MeasuredDetector, kind: str, recordings: Sequence[Samples]) -> Openings:
    """Count how often sounds other than speech cause a start of speech."""
    false_starts = sum(event.state == "start" for events in detector.events(recordings) for event in events)
    minutes = sum(map(len, recordings)) / SAMPLE_RATE / 60
    size = PIECE_SECONDS * SAMPLE_RATE
    pieces = [recording[start : start + size] for recording in recordings for start in range(0, len(recording), size)]
    audible = sum(detector.shows_words(detector.probabilities(piece)) for piece in pieces)
    percent = round(100 * audible / len(pieces), 1)
    return Openings(kind, round(minutes, 1), false_starts, round(60 * false_starts / minutes, 1), percent)


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
            first, last = (int(time / detector.rule.frame_ms) for time in (start, end + LATE_MS))
            unheard += not detector.shows_words(probabilities[first:last])
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


# Runs the recogniser with an activity head and without words, to get the speech events of activity alone.


class ActivityModel:
    """A streaming model that detects activity and nothing else."""

    name = "activity"
    writes = False
    sample_rate = SAMPLE_RATE
    ahead_samples = 0

    def __init__(self, head: ActivityNetwork, frame_samples: int, step_ms: tuple[int, ...]) -> None:
        """`frame_samples`: the samples of a frame of the encoder beside this head."""
        self._head = head
        self.frame_samples, self.step_ms = frame_samples, step_ms
        self._features = LogMelNetwork(hop=frame_samples // SUBSAMPLING)

    def detector(self, slots: int) -> SpeechDetector:
        """Return a detector of speech for this many slots."""
        return network_detector(self._features, self._head, slots)

    def probabilities(self, recording: Samples) -> list[float]:
        """Return the probability of speech in each frame of a recording."""
        whole = recording[: len(recording) // self.frame_samples * self.frame_samples]
        audio = torch.from_numpy(np.concatenate([np.zeros(self._features.context, np.int16), whole])).float() / 32768
        return list[float](self._head(self._features.energies(audio.unsqueeze(0)))[0, :, 0].exp().tolist())

    def make_state(self, slots: int) -> ModelState:
        """Make a new state for this many streams."""
        return {"wav": torch.zeros(slots, self._features.context), **self._head.make_state(slots)}

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Reset the state of these slots."""
        for tensor in state.values():
            tensor[list(slots)] = 0

    @torch.inference_mode()
    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Return the activity in the next step of each of these slots."""
        numbers, audio = torch.tensor(slots), torch.from_numpy(samples).float() / 32768
        recent = torch.cat((state["wav"].index_select(0, numbers), audio), dim=1)
        state["wav"].index_copy_(0, numbers, recent[:, -self._features.context :])
        return {ACTIVITY: host_array(self._head.step(state, numbers, self._features.energies(recent)))}


class NoWords:
    """A search that finds no words."""

    def prepare(self, slot: int, hotwords: Sequence[Hotword], settle_frames: int, caller: str = "") -> Work[None]:
        """Do nothing: there are no options."""
        yield from ()

    def release(self, slot: int) -> None:
        """Do nothing: there are no options."""

    def reset(self, slots: Sequence[int]) -> None:
        """Do nothing: there is no state."""

    def advance(self, slots: Sequence[int], emissions: Emissions) -> list[Hypothesis]:
        """Return hypotheses without words."""
        return self.finish(slots)

    def finish(self, slots: Sequence[int]) -> list[Hypothesis]:
        """Return hypotheses without words."""
        return [Hypothesis((), 0) for _ in slots]

    def alternatives(self, slot: int, number: int) -> list[LikelyWords]:
        """Return the only alternative: no words."""
        nothing: list[LikelyWords] = [((), 1.0)]
        return nothing[:number]


@dataclass(frozen=True)
class SpeechEvent:
    """A speech event, and how much audio the recogniser had got when it came."""

    state: str
    at_ms: int
    heard_ms: int


def speech_events(model: ActivityModel, recordings: Sequence[Samples], step_ms: int) -> list[list[SpeechEvent]]:
    """Return the speech events of streams, which are computed together."""
    # A segment with activity but without words counts as noise after a while. There are no words, so there is no limit.
    rule = EndpointRule(patience_ms=10**9)
    slots = len(recordings)
    detector = model.detector(slots)
    recogniser = Recogniser(model, {"lexicon": NoWords()}, slots=slots, detector=detector, idle_limit_s=1e9)
    for stream in range(len(recordings)):
        recogniser.open(stream, StreamOptions(step_ms=step_ms, endpoint=rule))
    events: list[list[SpeechEvent]] = [[] for _ in recordings]
    # The audio comes in pieces, as the bridge sends it while nobody speaks.
    size = piece_samples(step_ms * SAMPLE_RATE // 1000, model.frame_samples)
    for start in range(0, max(map(len, recordings)), size):
        chunks = [
            Chunk(stream, recording[start : start + size], end=start + size >= len(recording))
            for stream, recording in enumerate(recordings)
            if start < len(recording)
        ]
        for index, answer in recogniser.step(chunks):
            if isinstance(answer, StreamError):
                raise answer
            chunk = chunks[index]
            heard_ms = (start + len(chunk.samples)) * 1000 // SAMPLE_RATE
            events[chunk.stream] += [
                SpeechEvent(event.state, event.at_ms, heard_ms) for event in answer if isinstance(event, Speech)
            ]
    return events


# The audio for measuring activity: sounds other than speech, and utterances with pauses, also degraded ones.

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
