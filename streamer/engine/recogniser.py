"""The recogniser: streams in slots, computed together, audio in and events out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from streamer.engine.events import Event
from streamer.engine.models.streaming_model import ACTIVITY, Emissions, StreamingModel
from streamer.engine.options import StreamOptions
from streamer.engine.search.search import Hypothesis, LikelyWords, Search
from streamer.engine.slots import Slots, SlotsFull
from streamer.engine.stream import Clock, Stream
from streamer.engine.text.calibration import Calibration
from streamer.engine.text.transcriber import Transcriber

# A request with more audio than this would hold up its batch and fill memory.
LONGEST_CHUNK_S = 30


class StreamError(Exception):
    """What went wrong with one stream; the others of the batch are not concerned."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True)
class Chunk:
    """Audio of one stream (int16, any length); `flush` makes all of it final, `end` does so and closes the stream."""

    stream: int
    samples: NDArray[np.int16]
    flush: bool = False
    end: bool = False


Answer = tuple[int, list[Event] | StreamError]


class Recogniser:
    """Owns the slots: opens streams, steps a batch of them, closes them, and expires those that nobody feeds."""

    def __init__(
        self,
        model: StreamingModel,
        searches: Mapping[str, Search],
        *,
        slots: int,
        calibration: Calibration | None = None,
        idle_limit_s: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`searches` are what streams may choose from, each with room for all slots."""
        self.model = model
        self.searches = searches
        self._slots = Slots(slots)
        self._state = model.make_state(slots)
        self._calibration = calibration or Calibration()
        self._idle_limit_s = idle_limit_s
        self._now = clock
        self._units = Clock(model.sample_rate, model.frame_samples)
        self._streams: dict[int, Stream] = {}
        self.expired = 0  # streams dropped because nobody fed them

    @property
    def live(self) -> int:
        """How many streams are open."""
        return self._slots.live

    def open(self, stream: int, options: StreamOptions | None = None) -> None:
        """Open a stream under this number; one that was open under it is closed first."""
        self.close(stream)
        self.expire()
        options = options or StreamOptions()
        if options.search not in self.searches:
            raise StreamError("bad_options", f"there is no search {options.search!r} here")
        try:
            lease = self._slots.acquire()
        except SlotsFull as full:
            raise StreamError("full", f"{full}; try again when a stream has ended") from None
        try:
            for name, search in self.searches.items():
                chosen = name == options.search
                settle = math.ceil(options.settle_ms / self._units.frame_ms)
                search.configure(lease.slot, options.hotwords if chosen else (), settle if chosen else 0)
        except ValueError as error:
            self._slots.release(lease)
            raise StreamError("bad_options", str(error)) from None
        scribe = Transcriber(options, self._calibration, begins=options.begins)
        self._streams[stream] = Stream(
            lease, options, scribe, self._units, last_used=self._now(), speaking=options.speaking
        )
        self._start_afresh([lease.slot])

    def close(self, stream: int) -> None:
        """Forget a stream and free its slot; a number that is not open changes nothing."""
        closed = self._streams.pop(stream, None)
        if closed:
            self._slots.release(closed.lease)

    def expire(self) -> list[int]:
        """Close the streams that got nothing for longer than the idle limit and return their numbers."""
        oldest = self._now() - self._idle_limit_s
        idle = [number for number, stream in self._streams.items() if stream.last_used < oldest]
        for number in idle:
            self.close(number)
        self.expired += len(idle)
        return idle

    @torch.inference_mode()
    def step(self, chunks: Sequence[Chunk]) -> Iterator[Answer]:
        """Compute a batch; yields (index of the chunk, its events or its error), each as soon as it is complete."""
        running: dict[int, Stream] = {}
        for index, chunk in enumerate(chunks):
            try:
                running[index] = self._take(chunk, running)
            except StreamError as error:
                yield index, error
        while running:
            due: dict[int, list[tuple[int, Stream, NDArray[np.int16]]]] = {}
            for index, stream in list(running.items()):
                if not self._slots.valid(stream.lease):
                    # Closed between two answers of this batch: its slot may be somebody else's by now.
                    del running[index]
                    yield index, StreamError("unknown_stream", "it was closed while its audio was computed")
                elif (samples := stream.next_step()) is not None:
                    due.setdefault(stream.step_samples, []).append((index, stream, samples))
                else:
                    del running[index]
                    yield index, self._answer(chunks[index], stream)
            for group in due.values():
                try:
                    self._compute([stream for _, stream, _ in group], [samples for _, _, samples in group])
                except Exception as error:
                    # Where in the buffers it broke is unknown: none of these streams can go on.
                    for index, _, _ in group:
                        del running[index]
                        self.close(chunks[index].stream)
                        yield index, StreamError("failed", f"the model could not compute this step: {error}")

    def _take(self, chunk: Chunk, running: dict[int, Stream]) -> Stream:
        stream = self._streams.get(chunk.stream)
        if stream is None:
            raise StreamError("unknown_stream", "it was never opened here, has ended, or was idle for too long")
        if any(other is stream for other in running.values()):
            raise StreamError("busy_stream", "one chunk of a stream at a time")
        if len(chunk.samples) > LONGEST_CHUNK_S * self.model.sample_rate:
            raise StreamError("too_long", f"at most {LONGEST_CHUNK_S} s of audio in one request")
        stream.last_used = self._now()
        stream.hear(chunk.samples)
        stream.flushing = chunk.flush or chunk.end
        return stream

    def _compute(self, streams: Sequence[Stream], samples: Sequence[NDArray[np.int16]]) -> None:
        slots = [stream.lease.slot for stream in streams]
        audio = torch.from_numpy(np.stack(samples)).to(self.model.device).float() / 32768
        emissions = self.model.step(self._state, torch.tensor(slots, device=self.model.device), audio)
        activity: dict[int, list[float]] = {}
        if ACTIVITY in emissions:
            told = emissions[ACTIVITY].squeeze(2).exp().tolist()
            activity = {stream.lease.slot: row for stream, row in zip(streams, told, strict=True)}
        ended = []
        for stream, hypothesis in self._searched(streams, emissions):
            if stream.read(hypothesis, activity.get(stream.lease.slot), self._ends(stream)):
                ended.append(stream.lease.slot)
        self._start_afresh(ended)

    def _searched(self, streams: Sequence[Stream], emissions: Emissions) -> Iterator[tuple[Stream, Hypothesis]]:
        """What each stream's own search makes of its emissions."""
        for name, search in self.searches.items():
            rows = [row for row, stream in enumerate(streams) if stream.options.search == name]
            if not rows:
                continue
            mixed = len(rows) < len(streams)
            own = {head: found[rows] for head, found in emissions.items()} if mixed else emissions
            hypotheses = search.advance([streams[row].lease.slot for row in rows], own)
            yield from zip((streams[row] for row in rows), hypotheses, strict=True)

    def _ends(self, stream: Stream) -> _Ends:
        return _Ends(self.searches[stream.options.search], stream.lease.slot)

    def _answer(self, chunk: Chunk, stream: Stream) -> list[Event]:
        if stream.flushing:
            stream.conclude(self._ends(stream))
            self._start_afresh([stream.lease.slot])
        if chunk.end:
            self.close(chunk.stream)
        return stream.take_events()

    def _start_afresh(self, slots: Sequence[int]) -> None:
        if slots:
            self.model.reset(self._state, torch.tensor(slots, device=self.model.device))
            for search in self.searches.values():
                search.reset(slots)


@dataclass(frozen=True)
class _Ends:
    """The search of one stream where its segment ends."""

    search: Search
    slot: int

    def finish(self) -> Hypothesis:
        return self.search.finish([self.slot])[0]

    def alternatives(self, number: int) -> list[LikelyWords]:
        return self.search.alternatives(self.slot, number)
