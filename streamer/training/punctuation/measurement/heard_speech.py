"""Recognises recordings: segments of words with their times, and when each word was stable."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from streamer.engine.punctuation.marks import HeardWord
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.stream_events import Final, Partial, SpokenWord, StreamEvent
from streamer.engine.stream_options import StreamOptions
from streamer.training.data.corpus import SAMPLE_RATE, Samples

TOGETHER = 8
STEP_MS = 320


@dataclass(frozen=True)
class HeardSegment:
    """A segment: its words, where it ended, and how many of its words were stable after how much audio (ms)."""

    words: tuple[SpokenWord, ...]
    ended_ms: int
    stable: tuple[tuple[int, int], ...]

    def heard(self, next_start_ms: int | None = None) -> list[HeardWord]:
        """Return the words with the pauses after them. The last pause ends with the next word or with the segment."""
        starts = [word.start_ms for word in self.words[1:]]
        starts.append(self.ended_ms if next_start_ms is None else next_start_ms)
        return [
            HeardWord(word.word, max(0, start - word.end_ms)) for word, start in zip(self.words, starts, strict=True)
        ]

    def stable_at(self, count: int) -> int:
        """Return the audio in milliseconds after which this many words were stable."""
        return next((audio_ms for audio_ms, stable in self.stable if stable >= count), self.ended_ms)


@dataclass
class HeardRecordings:
    """The segments of each recording, and the CPU time that recognising took."""

    recordings: list[list[HeardSegment]] = field(default_factory=list)
    cpu_s: float = 0.0


def recognise(recogniser: Recogniser, recordings: Sequence[Samples]) -> HeardRecordings:
    """Recognise recordings in steps of 320 ms, several at a time."""
    heard = HeardRecordings()
    options = StreamOptions(step_ms=STEP_MS, speech=False)
    began = time.process_time()
    for start in range(0, len(recordings), TOGETHER):
        together = recordings[start : start + TOGETHER]
        events: list[list[StreamEvent]] = [[] for _ in together]
        for stream in range(len(together)):
            recogniser.open(stream, options)
        for chunks in _chunks(together):
            for index, answer in recogniser.step(chunks):
                if isinstance(answer, StreamError):
                    raise answer
                events[chunks[index].stream] += answer
        heard.recordings += [list(_segments(each)) for each in events]
    heard.cpu_s = time.process_time() - began
    return heard


def _chunks(recordings: Sequence[Samples]) -> Iterator[list[Chunk]]:
    """Yield the chunks of every step, for all recordings that are not over yet."""
    step = STEP_MS * SAMPLE_RATE // 1000
    for start in range(0, max(map(len, recordings)), step):
        yield [
            Chunk(stream, samples[start : start + step], end=start + step >= len(samples))
            for stream, samples in enumerate(recordings)
            if start < len(samples)
        ]


def _segments(events: Sequence[StreamEvent]) -> Iterator[HeardSegment]:
    stable: list[tuple[int, int]] = []
    for event in events:
        if isinstance(event, Partial):
            stable.append((event.audio_ms, len(event.text[: event.stable].split())))
        elif isinstance(event, Final):
            yield HeardSegment(event.words or (), event.audio_ms, tuple(stable))
            stable = []
