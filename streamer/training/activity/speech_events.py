"""Runs the recogniser with an activity head and without words, to get the speech events of activity alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from streamer.engine.endpointing import EndpointRule
from streamer.engine.models.activity_network import ActivityNetwork
from streamer.engine.models.features import CONTEXT, LogMel
from streamer.engine.models.speech_detector import SpeechDetector
from streamer.engine.models.streaming_model import ACTIVITY, Emissions, ModelState
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search.search import Hotword, Hypothesis, LikelyWords
from streamer.engine.segment_audio import piece_samples
from streamer.engine.stream_events import Speech
from streamer.engine.stream_options import StreamOptions
from streamer.engine.work.parts import Work
from streamer.training.data.corpus import SAMPLE_RATE, Samples


class ActivityModel:
    """A streaming model that detects activity and nothing else."""

    name = "activity"
    writes = False
    sample_rate = SAMPLE_RATE
    frame_samples = 640
    ahead_samples = 0
    step_ms: tuple[int, ...] = (160, 320, 640)

    def __init__(self, head: ActivityNetwork) -> None:
        self._head = head
        self._features = LogMel()

    def make_state(self, slots: int) -> ModelState:
        """Make a new state for this many streams."""
        return {"wav": torch.zeros(slots, CONTEXT), **self._head.make_state(slots)}

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Reset the state of these slots."""
        for tensor in state.values():
            tensor[list(slots)] = 0

    @torch.inference_mode()
    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Return the activity in the next step of each of these slots."""
        numbers, audio = torch.tensor(slots), torch.from_numpy(samples).float() / 32768
        recent = torch.cat((state["wav"].index_select(0, numbers), audio), dim=1)
        state["wav"].index_copy_(0, numbers, recent[:, -CONTEXT:])
        return {ACTIVITY: self._head.step(state, numbers, self._features.energies(recent))}


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


def speech_events(head: ActivityNetwork, recordings: Sequence[Samples], step_ms: int) -> list[list[SpeechEvent]]:
    """Return the speech events of streams, which are computed together."""
    # A segment with activity but without words counts as noise after a while. There are no words, so there is no limit.
    rule = EndpointRule(patience_ms=10**9)
    model, slots = ActivityModel(head), len(recordings)
    detector = SpeechDetector.make(LogMel(), head, slots)
    recogniser = Recogniser(model, {"lexicon": NoWords()}, slots=slots, detector=detector, idle_limit_s=1e9)
    for stream in range(len(recordings)):
        recogniser.open(stream, StreamOptions(step_ms=step_ms, endpoint=rule))
    events: list[list[SpeechEvent]] = [[] for _ in recordings]
    # The audio comes in pieces, as the bridge sends it while nobody speaks.
    size = piece_samples(step_ms * SAMPLE_RATE // 1000, ActivityModel.frame_samples)
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
