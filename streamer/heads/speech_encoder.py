"""The encoder alone. It gets the audio of many streams, and gives frames for the heads.

It does not decide where segments end. When the transcript head has decided a cut, the next request tells the encoder.
Then it computes the audio since the cut again, which it has stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from streamer.base.codes import FailureCode
from streamer.base.limits import LONGEST_SEGMENT_BOUNDS_MS, STEP_MS
from streamer.engine.acoustics.acoustic_model import SpeechModel
from streamer.engine.acoustics.streaming_model import Floats
from streamer.engine.recogniser import LONGEST_CHUNK_S, StreamError
from streamer.engine.segment_audio import Pieces, SegmentAudio, TimeScale, piece_samples
from streamer.engine.slots import OpenStreams, SlotLease
from streamer.engine.stream_options import step_for
from streamer.heads.passage import Encoded, Passage

AGAIN = "again"
"""The option of a request with the fields of the last event of this name, which the transcript head sent."""
_MOST_PIECES = 16  # of a stream in one call, so that the call does not need too much memory


@dataclass(frozen=True)
class Sound:
    """The audio of one request. `options` are all options of the request; only a few of them are for the encoder."""

    stream: int
    samples: NDArray[np.int16]
    options: Mapping[str, object]
    start: bool = False
    end: bool = False


@dataclass
class _Stream:
    lease: SlotLease
    last_used: float
    audio: SegmentAudio
    step: int  # samples
    speaking: bool
    pieces: Pieces | None
    run: int = 0


@dataclass
class _Work:
    """The results for one request so far."""

    stream: _Stream
    flush: bool
    passage: Passage
    frames: list[Floats] = field(default_factory=list)
    energies: list[Floats] = field(default_factory=list)
    pieces: list[Floats] = field(default_factory=list)


class SpeechEncoder:
    """Owns the slots of the encoder, and the audio of each stream since its last cut."""

    def __init__(
        self,
        model: SpeechModel,
        *,
        slots: int,
        idle_limit_s: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model = model
        self.streams: OpenStreams[_Stream] = OpenStreams(slots, idle_limit_s, clock)
        self._state = model.make_state(slots)
        self._pieces = model.piece_energies(slots)
        self._time_scale = TimeScale(model.sample_rate, model.frame_samples)
        # A client that never answers the event after a cut must not fill the memory.
        self._most = (LONGEST_SEGMENT_BOUNDS_MS[1] // 1000 + 2 * LONGEST_CHUNK_S) * model.sample_rate

    def encode(self, sounds: Sequence[Sound]) -> list[Encoded]:
        """Compute a batch. The result of a request that fails has the failure in its passage, for the heads."""
        works: list[_Work | Encoded] = []
        for sound in sounds:
            try:
                works.append(self._take(sound))
            except Exception as error:
                works.append(self._empty(Passage().failed(error)))
        running = [work for work in works if isinstance(work, _Work)]
        self._compute_pieces(running)
        while running := [work for work in running if not work.passage.failure]:
            due: dict[int, list[tuple[_Work, NDArray[np.int16]]]] = {}
            for work in running:
                samples = work.stream.audio.next_step(work.flush)
                if samples is not None:
                    due.setdefault(work.stream.step, []).append((work, samples))
            for group in due.values():
                self._compute([work for work, _ in group], np.stack([samples for _, samples in group]))
            running = [work for group in due.values() for work, _ in group]
        encoded = [self._result(work) if isinstance(work, _Work) else work for work in works]
        for sound, result in zip(sounds, encoded, strict=True):
            if sound.end or result.passage.failure.startswith("failed:"):
                self.streams.close(sound.stream)
        return encoded

    def _take(self, sound: Sound) -> _Work:
        if sound.start:
            self._open(sound)
        stream = self.streams.use(sound.stream)
        again = sound.options.get(AGAIN)
        if again is not None:
            self._begin_again(stream, again)
        if len(sound.samples) > LONGEST_CHUNK_S * self.model.sample_rate:
            raise StreamError(FailureCode.TOO_LONG, f"a request must have at most {LONGEST_CHUNK_S} s of audio")
        if stream.audio.held + len(sound.samples) > self._most:
            raise StreamError(FailureCode.TOO_LONG, f"the event '{AGAIN}' must be answered before more audio is sent")
        stream.audio.append(sound.samples)
        if stream.pieces is not None:
            stream.pieces.append(sound.samples)
        passage = Passage(
            stream.run,
            stream.audio.base,
            stream.audio.computed // self.model.frame_samples,
            stream.step // self.model.frame_samples,
            received=stream.audio.received,
            speaking=stream.speaking,
            heard=(stream.pieces.taken if stream.pieces else 0) // self.model.frame_samples,
            piece=(stream.pieces.samples if stream.pieces else 0) // self.model.frame_samples,
        )
        return _Work(stream, sound.options.get("flush") is True or sound.end, passage)

    def _open(self, sound: Sound) -> None:
        wanted = sound.options.get("step_ms", STEP_MS)
        step_ms = step_for(wanted, self.model.step_ms) if type(wanted) is int else wanted
        if step_ms not in self.model.step_ms:
            raise StreamError(
                FailureCode.BAD_OPTIONS, f"step_ms must be one of {', '.join(map(str, self.model.step_ms))}"
            )
        speaking = sound.options.get("speaking") is True
        step = self._time_scale.samples(step_ms)
        # A stream without events of speech needs no pieces.
        pieces = None if sound.options.get("speech") is False else Pieces(piece_samples(step, self.model.frame_samples))
        self.streams.expire()

        def make(lease: SlotLease, now: float) -> _Stream:
            return _Stream(lease, now, SegmentAudio(self._time_scale, step), step, speaking, pieces)

        slot = self.streams.open(sound.stream, make).lease.slot
        self.model.reset(self._state, [slot])
        self._pieces.reset([slot])

    def _begin_again(self, stream: _Stream, again: object) -> None:
        """Begin the next run, unless it has begun already."""
        fields = again if isinstance(again, dict) else {}
        sample, run, speaking = (fields.get(name) for name in ("sample", "run", "speaking"))
        if type(sample) is not int or type(run) is not int or type(speaking) is not bool:
            raise StreamError(FailureCode.BAD_OPTIONS, f"option '{AGAIN}' must have the fields of the event '{AGAIN}'")
        if run == stream.run:
            return
        if run != stream.run + 1 or not stream.audio.base <= sample <= stream.audio.received:
            raise StreamError(
                FailureCode.BAD_OPTIONS, f"option '{AGAIN}' is not the last event '{AGAIN}' of this stream"
            )
        stream.audio.begin_at(sample)
        stream.run, stream.speaking = run, speaking
        self.model.reset(self._state, [stream.lease.slot])

    def _compute_pieces(self, works: Sequence[_Work]) -> None:
        """Compute the energies of all pieces that have arrived."""
        while True:
            due: dict[int, list[tuple[_Work, list[NDArray[np.int16]]]]] = {}
            for work in works:
                if work.passage.failure or work.stream.pieces is None:
                    continue
                pieces: list[NDArray[np.int16]] = []
                while len(pieces) < _MOST_PIECES:
                    piece = work.stream.pieces.next(work.stream.audio.received)
                    if piece is None:
                        break
                    pieces.append(piece)
                if pieces:
                    due.setdefault(len(pieces[0]), []).append((work, pieces))
            if not due:
                return
            for group in due.values():
                slots = [work.stream.lease.slot for work, _ in group]
                try:
                    by_slot = self._pieces.compute(slots, [pieces for _, pieces in group])
                except Exception as error:
                    self._fail([work for work, _ in group], error)
                    continue
                for (work, pieces), energies in zip(group, by_slot, strict=True):
                    work.pieces += np.split(energies, len(pieces))

    def _compute(self, works: Sequence[_Work], samples: NDArray[np.int16]) -> None:
        slots = [work.stream.lease.slot for work in works]
        for work in works:
            work.stream.audio.advance()
        try:
            frames, energies = self.model.encode_samples(self._state, slots, samples)
        except Exception as error:
            self._fail(works, error)
            return
        for row, work in enumerate(works):
            work.frames.append(frames[row])
            work.energies.append(energies[row])

    def _fail(self, works: Sequence[_Work], error: Exception) -> None:
        # The state of the buffers is not known now, so none of these streams can go on.
        failure = StreamError(FailureCode.FAILED, f"the encoder could not compute this step: {error}")
        for work in works:
            work.passage = work.passage.failed(failure)

    def _result(self, work: _Work) -> Encoded:
        if work.passage.failure or not (work.frames or work.pieces):
            return self._empty(work.passage)
        passage = replace(work.passage, steps=len(work.frames), pieces=len(work.pieces))
        empty = self._empty(passage)
        frames = np.concatenate(work.frames) if work.frames else empty.frames
        return Encoded(passage, frames, np.concatenate(work.energies + work.pieces))

    def _empty(self, passage: Passage) -> Encoded:
        shape = self.model.description.encoder
        return Encoded(passage, np.zeros((0, shape.frame_width), np.float32), np.zeros((0, shape.mels), np.float32))
