"""Runs one long session that sends recordings again and again, with pauses of varied length.

In every second round flushes separate the recordings. A segment depends on its own audio alone. So its words must be
those of the first such round, and its times must be the same except for the offset. The other rounds are cut wherever
the recogniser finds a silence.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.client import connect
from streamer.evaluate.manifest import read_manifest, select_utterances
from streamer.testing.soak.long_session_record import LongSessionRecord, Recording, Sample, Turn
from streamer.testing.watched_process import Watched

PER_MS = SAMPLE_RATE // 1000
SENT_AT_ONCE_MS = 200
# Without a pace, audio is sent at most this far ahead of recognition. The sockets alone would hold minutes of audio.
AHEAD_MS = 10_000
SAMPLED_MS = 5000
PAUSES_MS = (400, 4000)  # some shorter than the silence that ends a segment, some longer
APART_MS = (2000, 4000)  # always longer, so that the last words do not depend on the pause


def read_recordings(manifest: Path, limit: int | None = None) -> list[Recording]:
    """Read the recordings of a manifest; with a limit this many of them, evenly spread."""
    return [
        Recording(_whole_ms(utterance.samples()), utterance.words)
        for utterance in select_utterances(read_manifest(manifest), limit=limit)
    ]


async def session(
    url: str, recordings: Sequence[Recording], watched: Watched, *, minutes: float, pace: float, search: str
) -> LongSessionRecord:
    """Send the recordings for this many minutes. `pace`: how many times as fast as spoken; 0: as fast as possible."""
    record = LongSessionRecord(samples=[_sample(watched, 0)])
    sent: deque[tuple[int, float]] = deque()  # how much audio was sent when
    progress = asyncio.Event()
    async with connect(url, {"search": search}) as opened:

        async def send() -> None:
            began = time.monotonic()
            for turn, audio in _turns(recordings, int(minutes * 60_000)):
                record.turns.append(turn)
                if turn.exact or turn.recording == 0:
                    await opened.flush()
                step = SENT_AT_ONCE_MS * PER_MS
                for offset in range(0, len(audio), step):
                    piece = audio[offset : offset + step]
                    so_far = turn.start_ms + (offset + len(piece)) // PER_MS
                    while so_far > record.heard_ms + AHEAD_MS and not pace:
                        progress.clear()
                        await progress.wait()
                    if pace:
                        await asyncio.sleep(began + so_far / 1000 / pace - time.monotonic())
                    await opened.send(piece)
                    sent.append((so_far, time.monotonic()))
            await opened.stop()

        sending = asyncio.create_task(send())
        try:
            async for event in opened:
                _note(event, record, sent, watched)
                progress.set()
            await sending
        finally:
            sending.cancel()
    return record


def _turns(recordings: Sequence[Recording], length_ms: int) -> Iterator[tuple[Turn, NDArray[np.int16]]]:
    rng = np.random.default_rng(1)
    # Every pause has the same faint noise, so that the audio before a cut does not depend on the length of the pause.
    noise = rng.integers(-4, 5, PAUSES_MS[1] * PER_MS, dtype=np.int16)
    at, number = 0, 0
    while at < length_ms:
        for index, recording in enumerate(recordings):
            pause = int(rng.integers(*(PAUSES_MS if number % 2 else APART_MS)))
            audio = np.concatenate([recording.audio, noise[: pause * PER_MS]])
            turn = Turn(index, number, at, at + len(audio) // PER_MS)
            yield turn, audio
            at = turn.end_ms
        number += 1


def _note(
    event: Mapping[str, Any], record: LongSessionRecord, sent: deque[tuple[int, float]], watched: Watched
) -> None:
    if event["type"] == "final":
        record.words += [(word["word"], word["start_ms"], word["end_ms"]) for word in event["words"]]
    audio_ms = event.get("audio_ms")
    if audio_ms is None:
        return
    record.heard_ms = max(record.heard_ms, audio_ms)
    sent_at = None
    while sent and sent[0][0] <= audio_ms:
        sent_at = sent.popleft()[1]
    if sent_at is not None:
        record.delays.append((audio_ms, time.monotonic() - sent_at))
    if audio_ms >= record.samples[-1].audio_ms + SAMPLED_MS or event["type"] == "done":
        record.samples.append(_sample(watched, audio_ms))


def _sample(watched: Watched, audio_ms: int) -> Sample:
    return Sample(audio_ms, time.monotonic(), watched.memory_mb(), watched.cpu_s())


def _whole_ms(audio: NDArray[np.int16]) -> NDArray[np.int16]:
    return audio[: len(audio) // PER_MS * PER_MS]
