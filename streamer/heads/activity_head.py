"""The activity head. It detects from the energies of an encoder when somebody speaks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamer.base.codes import FailureCode
from streamer.engine.acoustics.acoustics import SlotActivity
from streamer.engine.acoustics.activity import ActivityReading, ActivityRule
from streamer.engine.acoustics.encoder_config import SUBSAMPLING
from streamer.engine.acoustics.speech_detector import PieceActivity
from streamer.engine.acoustics.streaming_model import Floats, SlotNetwork
from streamer.engine.slots import OpenStreams, SlotLease
from streamer.engine.stream_events import StreamError
from streamer.heads.passage import Followed, Passage, Place


@dataclass(frozen=True)
class Energies:
    """The energies of a passage of one stream."""

    stream: int
    passage: Passage
    energies: Floats
    start: bool = False
    end: bool = False


@dataclass
class _Stream:
    lease: SlotLease
    last_used: float
    place: Place = field(default_factory=Place)


@dataclass
class _Work:
    stream: _Stream
    passage: Passage
    steps: Floats  # [steps, 4 * frames of a step, mels]
    log_probs: list[list[float]] = field(default_factory=list)
    readings: list[ActivityReading] = field(default_factory=list)
    pieces: Floats = field(default_factory=lambda: np.zeros(0, np.float32))  # [pieces, 4 * frames of a piece, mels]
    piece_probabilities: list[tuple[float, ...]] = field(default_factory=list)  # the probabilities of each piece


class ActivityHead:
    """Owns the slots of the activity network."""

    def __init__(
        self,
        network: SlotNetwork,
        *,
        mels: int,
        slots: int,
        rule: ActivityRule | None = None,
        idle_limit_s: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._network = network
        self.mels = mels
        self.streams: OpenStreams[_Stream] = OpenStreams(slots, idle_limit_s, clock)
        self._state = network.make_state(slots)
        self._activity = SlotActivity(rule or ActivityRule())
        self._pieces = PieceActivity(network, slots)

    def follow(self, batch: Sequence[Energies]) -> list[Followed]:
        """Read a batch. The result of a request that fails here, or failed before, has the failure in its passage."""
        works: list[_Work | Passage] = []
        for part in batch:
            try:
                works.append(self._take(part))
            except Exception as error:
                works.append(part.passage.failed(error))
        running = [work for work in works if isinstance(work, _Work)]
        self._compute_pieces(running)
        while running := [work for work in running if len(work.log_probs) < len(work.steps)]:
            groups: dict[int, list[_Work]] = {}
            for work in running:
                groups.setdefault(work.passage.step, []).append(work)
            for group in groups.values():
                self._compute(group)
        results = []
        for part, outcome in zip(batch, works, strict=True):
            result = _result(outcome)
            if part.end or result.passage.failure.startswith("failed:"):
                self.streams.close(part.stream)
            results.append(result)
        return results

    def _take(self, part: Energies) -> _Work:
        part.passage.check()
        if part.start:
            self._open(part.stream)
        stream, passage = self.streams.use(part.stream), part.passage
        if stream.place.take(passage):
            self._reset(stream.lease.slot)
        hops, mels = SUBSAMPLING * passage.step, part.energies.shape[-1]
        energies = part.energies
        steps = energies[: hops * passage.steps].reshape(passage.steps, max(1, hops), mels)
        hops = SUBSAMPLING * passage.piece
        pieces = energies[len(energies) - hops * passage.pieces :].reshape(passage.pieces, max(1, hops), mels)
        return _Work(stream, passage, steps, pieces=pieces)

    def _open(self, number: int) -> None:
        self.streams.expire()
        slot = self.streams.open(number, _Stream).lease.slot
        self._reset(slot)
        self._pieces.reset([slot])

    def _reset(self, slot: int) -> None:
        for array in self._state.values():
            array[slot] = 0
        self._activity.reset([slot])

    def _compute_pieces(self, works: Sequence[_Work]) -> None:
        groups: dict[int, list[_Work]] = {}
        for work in works:
            if len(work.pieces):
                groups.setdefault(work.passage.piece, []).append(work)
        for frames, group in groups.items():
            slots = [work.stream.lease.slot for work in group]
            try:
                by_slot = self._pieces.compute(slots, [np.concatenate(work.pieces) for work in group])
            except Exception as error:
                _fail(group, error)
                continue
            for work, row in zip(group, by_slot, strict=True):
                work.piece_probabilities += [tuple(row[start : start + frames]) for start in range(0, len(row), frames)]

    def _compute(self, works: Sequence[_Work]) -> None:
        slots = [work.stream.lease.slot for work in works]
        energies = np.stack([work.steps[len(work.log_probs)] for work in works])
        try:
            outputs = self._network.step(self._state, slots, energies)
            rows: list[list[float]] = outputs[:, :, 0].tolist()
            readings = self._activity.read(slots, rows, [work.passage.speaking for work in works])
        except Exception as error:
            _fail(works, error)
            return
        for row, work in zip(rows, works, strict=True):
            work.log_probs.append(row)
            work.readings.append(readings[work.stream.lease.slot])


def _fail(works: Sequence[_Work], error: Exception) -> None:
    failure = StreamError(FailureCode.FAILED, f"the activity head could not compute this step: {error}")
    for work in works:
        work.passage = work.passage.failed(failure)
        work.steps, work.pieces = work.steps[:0], work.pieces[:0]


def _result(work: _Work | Passage) -> Followed:
    if isinstance(work, Passage):
        return Followed(work, np.zeros(0, np.float32), ())
    probabilities = np.exp(np.array([value for row in work.log_probs for value in row], np.float32))
    if work.passage.failure:
        return Followed(work.passage, probabilities, ())
    return Followed(work.passage, probabilities, tuple(work.readings), tuple(work.piece_probabilities))
