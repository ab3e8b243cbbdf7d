"""An exact recogniser, sessions that send audio to it, and every fault that can happen between them. No Triton."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest

from streamer.base.events import ModelEvent, as_json
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.session.session import Session, State
from streamer.bridge.session.stream import Request
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.stream_options import StreamOptions
from streamer.testing.exact_model import ExactModel
from streamer.testing.exact_speech import UNITS
from streamer.wire.events import parse
from tests.bridge.session.driven_session import told

pytest.importorskip("numba", reason="it runs the recogniser too: pip install 'streamer-asr[engine]'")

SLOTS = 16
UNLIMITED = Limits(idle_s=1e6, recover_s=1e6, resume_s=1e6)
Event = dict[str, Any]
T = TypeVar("T")


class Speaker:
    """One session, its client, and the messages that the client got."""

    def __init__(
        self, number: int, audio: bytes, options: dict[str, Any], now: float, limits: Limits = UNLIMITED
    ) -> None:
        self.audio = audio
        self.place = 0
        self.faults = 0
        self.told: list[Event] = []
        self.sequences: dict[int, int] = {}  # of its streams
        self.under_way: dict[int, Request] = {}
        self.session = Session(str(number), "secret", ["default"], now, limits)
        self.session.receive_text(json.dumps({"type": "start", **options}), now)

    def hear(self) -> None:
        self.told += told(self.session)


class World:
    """The time, one recogniser, and speakers."""

    def __init__(self) -> None:
        self.now = 100.0
        self.away = False  # no sequence can be started
        self.speakers: list[Speaker] = []
        self._sequences = 0
        self._recogniser = self._made()

    def add(self, audio: bytes, options: dict[str, Any]) -> Speaker:
        self.speakers.append(Speaker(len(self.speakers), audio, options, self.now))
        return self.speakers[-1]

    def say(self, speaker: Speaker, size: int) -> None:
        """Let the client send its next bytes."""
        if not speaker.session.full and speaker.place < len(speaker.audio):
            piece = speaker.audio[speaker.place : speaker.place + size]
            speaker.place += len(piece)
            speaker.session.receive_audio(piece, self.now)

    def flush(self, speaker: Speaker) -> None:
        if not speaker.session.full:
            speaker.session.receive_text('{"type":"flush"}', self.now)

    def ask(self, speaker: Speaker) -> None:
        """Send the next requests to the model."""
        speaker.session.tick(self.now)
        for stream, request in speaker.session.requests(self.now):
            speaker.under_way[stream] = request
            if request.start:
                self._recogniser.close(speaker.sequences.get(stream, 0))  # who gets a new place gives the old one back
                self._sequences += 1
                speaker.sequences[stream] = self._sequences
        speaker.hear()

    def answer(self, speaker: Speaker, stream: int | None = None, *, leaving: bool = False) -> None:
        """Compute the requests under way, or that of one stream, and deliver their answers."""
        for number, request in _of(speaker.under_way, stream):
            if request.start and self.away:
                self._fail(speaker, number, "unavailable", lost=False)
                continue
            events = self._compute(speaker, number, request)
            if isinstance(events, StreamError):
                self._fail(speaker, number, events.code, lost=False)
            else:
                del speaker.under_way[number]
                speaker.session.answer(number, events, self.now, leaving=leaving)
                speaker.hear()

    def overdue(self, speaker: Speaker, stream: int | None = None) -> None:
        """Compute the requests, but deliver no answers."""
        for number, request in _of(speaker.under_way, stream):
            self._compute(speaker, number, request)
            self._fail(speaker, number, "overdue", lost=False)

    def forget(self, speaker: Speaker, stream: int | None = None) -> None:
        """Let the model lose the sequences, so that the next request fails."""
        for _, sequence in _of(speaker.sequences, stream):
            self._recogniser.close(sequence)

    def crash(self) -> None:
        """Let the model die with all its sequences, and another one take its place."""
        self._recogniser = self._made()
        for speaker in self.speakers:
            for number, _ in _of(speaker.under_way):
                self._fail(speaker, number, "unavailable", lost=True)

    @property
    def live(self) -> int:
        """Return how many streams the model holds."""
        return self._recogniser.live

    def later(self, seconds: float) -> None:
        self.now += seconds

    def end(self) -> None:
        """Send everything and stop all clients, without further faults."""
        for speaker in self.speakers:
            self._until(speaker, partial(_all_sent, speaker))
            speaker.session.receive_text('{"type":"stop"}', self.now)
            self._until(speaker, partial(_is_over, speaker))
            assert speaker.session.state is State.CLOSED

    def _until(self, speaker: Speaker, done: Callable[[], bool]) -> None:
        for _ in range(2000):
            if done():
                return
            self.say(speaker, 32_000)
            self.ask(speaker)
            self.answer(speaker)
            self.later(0.1)
        raise AssertionError("the session does not end")

    def _made(self) -> Recogniser:
        from tests.engine.random_marks import random_marks  # imports torch

        searches = {"lexicon": GreedySearch(UNITS, SLOTS)}
        return Recogniser(ExactModel(), searches, slots=SLOTS, punctuation=random_marks(), idle_limit_s=1e9)

    def _compute(self, speaker: Speaker, stream: int, request: Request) -> list[ModelEvent] | StreamError:
        sequence = speaker.sequences[stream]
        try:
            if request.start:
                given = {**speaker.session.start.model_options(), **request.options}
                options = StreamOptions.from_dict(json.loads(json.dumps(given)), ExactModel.step_ms, ["lexicon"])
                self._recogniser.open(sequence, options)
            chunk = Chunk(sequence, np.frombuffer(request.pcm, np.int16), flush=request.flush, end=request.end)
            [(_, answer)] = self._recogniser.step([chunk])
        except StreamError as error:
            return error
        return answer if isinstance(answer, StreamError) else [parse(as_json(event)) for event in answer]

    def _fail(self, speaker: Speaker, stream: int, code: str, *, lost: bool) -> None:
        speaker.faults += 1
        del speaker.under_way[stream]
        self._recogniser.close(speaker.sequences[stream])  # what an END does, now or after the idle limit
        speaker.session.fail(stream, code, "it broke", self.now, lost=lost)
        speaker.hear()


def _of(streams: dict[int, T], stream: int | None = None) -> list[tuple[int, T]]:
    return [(number, found) for number, found in streams.items() if stream in (None, number)]


def _all_sent(speaker: Speaker) -> bool:
    return speaker.place == len(speaker.audio)


def _is_over(speaker: Speaker) -> bool:
    return speaker.session.over
